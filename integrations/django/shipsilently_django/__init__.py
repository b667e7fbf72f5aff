"""ShipSilently for Django."""
