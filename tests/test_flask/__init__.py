"""The Flask integration: one test module per source module, and scenarios through all of it."""
