"""The ShipSilently service on your own machine."""
