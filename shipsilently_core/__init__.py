"""The ShipSilently client: knows no framework."""
