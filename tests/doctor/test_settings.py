"""The configuration as resolved, and the shape of the key."""

from typing import Any

import pytest

from shipsilently_cli.checkup import Finding, Level, Subject, examine
from shipsilently_cli.checkup.findings import failure
from shipsilently_cli.checkup.settings import check, is_this_machine
from shipsilently_core import Config

KEY = "sk_live_0123456789abcdef"


def checked(**settings: Any) -> dict[str, Finding]:
    """Each finding by its check."""
    config = Config(**{"api_key": KEY, "api_url": "https://flags.example", **settings})
    return {finding.check: finding for finding in check(Subject(config=config))}


def test_what_is_resolved_is_told() -> None:
    """Address, deadline and the way changes arrive are shown, the key by its prefix."""
    found = checked()
    assert found["configuration"].text == (
        "settings: https://flags.example, deadline 2 s, streaming"
    )
    assert found["key"].text == "sk_live_… (24 characters)"
    assert {finding.level for finding in found.values()} == {Level.OK}
    assert checked(stream=False)["configuration"].text.endswith("polling every 30 s")


@pytest.mark.parametrize(
    ("url", "level"),
    [("http://flags.example", Level.WARNING), ("http://127.0.0.1:1", Level.OK)],
)
def test_a_key_that_travels_openly_is_a_warning(url: str, level: Level) -> None:
    """Without TLS the key can be read on the way, save on this machine."""
    assert checked(api_url=url)["configuration"].level is level


@pytest.mark.parametrize(
    ("key", "url", "level"),
    [
        ("pk_live_0123456789abcdef", "https://flags.example", Level.WARNING),
        ("sk_local", "https://flags.example", Level.WARNING),
        ("sk_local", "http://localhost:4400", Level.OK),
    ],
)
def test_an_odd_key_is_a_warning(key: str, url: str, level: Level) -> None:
    """A key of another kind, or the local service's away from it, is told."""
    assert checked(api_key=key, api_url=url)["key"].level is level


def test_wrong_settings_end_the_examination() -> None:
    """With settings that cannot be used nothing else is tried."""
    problem = failure("configuration", "api_key: is missing", "Set it.")
    found = list(examine(Subject(config=None, problems=(problem,))))
    assert found[0] is problem
    assert {finding.level for finding in found[1:]} == {Level.SKIPPED}


def test_settings_with_something_wrong_are_not_called_right() -> None:
    """A failure is followed by what is used all the same, which is no "ok"."""
    problem = failure("configuration", "TIMEOUT must be a number of seconds", "See there.")
    config = Config(api_key=KEY, api_url="https://flags.example")
    found = list(check(Subject(config=config, problems=(problem,))))
    assert [(each.check, each.level) for each in found[:2]] == [
        ("configuration", Level.FAILURE),
        ("configuration", Level.WARNING),
    ]
    assert found[1].text == (
        "used without what is wrong above: settings: https://flags.example, deadline 2 s, streaming"
    )


@pytest.mark.parametrize(
    ("host", "local"),
    [
        ("127.0.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("app.localhost", True),
        ("flags.example", False),
        ("10.0.0.1", False),
    ],
)
def test_this_machine_is_known(host: str, local: bool) -> None:
    """Loopback addresses and localhost are this machine."""
    assert is_this_machine(host) is local
