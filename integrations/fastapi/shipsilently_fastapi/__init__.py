"""ShipSilently for FastAPI and Starlette."""
