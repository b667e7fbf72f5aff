"""ShipSilently for Flask."""
