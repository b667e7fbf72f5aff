"""The commands that ask a service: `doctor`, `evaluate` and `watch`."""
