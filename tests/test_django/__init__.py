"""The Django integration: `conftest` and `site` are what its test modules share."""
