"""The `shipsilently` command."""
