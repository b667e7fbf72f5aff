"""A service, and an environment that leads to it."""

from collections.abc import Iterator

import pytest

from shipsilently_local import LocalService

FLAGS = {
    "checkout-v2": {
        "default": False,
        "rules": [
            {
                "name": "paying customers",
                "when": [{"attribute": "plan", "operator": "equals", "value": "pro"}],
                "serve": True,
            }
        ],
    },
    "banner": {"default": "Good morning"},
}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalService]:
    """The local service with quick heartbeats; the environment names it and its key."""
    for name in ("HTTP_PROXY", "ALL_PROXY", "SHIPSILENTLY_KEY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    with LocalService(FLAGS, heartbeat=0.1) as running:
        monkeypatch.setenv("SHIPSILENTLY_API_URL", running.url)
        monkeypatch.setenv("SHIPSILENTLY_API_KEY", running.key)
        yield running
