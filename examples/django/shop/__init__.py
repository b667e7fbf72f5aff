"""A small shop with a checkout behind a flag."""
