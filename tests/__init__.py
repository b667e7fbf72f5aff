"""The tests of every package, one folder per package."""
