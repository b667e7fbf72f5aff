"""The shop has no tables of its own, only people."""
