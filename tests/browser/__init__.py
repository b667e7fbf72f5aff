"""The example sites in a real browser; run by `make browser`."""
