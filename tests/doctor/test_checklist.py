"""The production checklist, point by point."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from shipsilently_cli.checkup import Finding, Level, Subject
from shipsilently_cli.checkup.checklist import check
from shipsilently_core import Config, ShipSilentlyClient
from shipsilently_core.signals import connection_state_changed, evaluation_failed
from shipsilently_core.testing import ManualClock, ScriptedService

pytestmark = pytest.mark.usefixtures("fresh_process")


def config(**settings: Any) -> Config:
    """Settings that nothing is wrong with."""
    return Config(api_key="sk_live_0123456789abcdef", api_url="http://flags.invalid", **settings)


def checked(
    app: str = "the app",
    *,
    flags: set[str] | None = None,
    sources: tuple[Path, ...] = (),
    client: ShipSilentlyClient | None = None,
    **settings: Any,
) -> dict[str, Finding]:
    """Each point by its name."""
    subject = Subject(config=config(**settings), app=app, sources=sources, client=client)
    known = None if flags is None else frozenset(flags)
    return {finding.check: finding for finding in check(subject, known)}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small app that reads three flags, two of them without a default of their own."""
    (tmp_path / "views.py").write_text(
        'a = flags.get("with-default", False)\n'
        'b = request.flags.is_enabled("bare")\n'
        '@requires_flag("!gate", "bare")\ndef view(): ...\n'
    )
    return tmp_path


def test_flags_without_a_default_are_listed(source: Path) -> None:
    """Each flag that is read without a default, declared or given, is told with its place."""
    found = checked(sources=(source,), flags={"bare", "gate", "with-default"})
    assert found["defaults"].level is Level.WARNING
    assert found["defaults"].text == (
        "2 flags read without a default: bare (views.py:3), gate (views.py:3)"
    )
    assert found["flags"].level is Level.OK


def test_declared_defaults_are_enough(source: Path) -> None:
    """With `defaults=` for the others, each flag read has one."""
    found = checked(sources=(source,), defaults={"bare": False, "gate": False})
    assert found["defaults"].level is Level.OK
    assert "each of the 3 flags read has one" in found["defaults"].text
    assert "flags" not in found


def test_flags_that_do_not_exist_are_listed(source: Path) -> None:
    """A flag that is read and not in the environment may be misspelt."""
    found = checked(sources=(source,), flags={"with-default", "gate"})
    assert found["flags"].level is Level.WARNING
    assert "bare (views.py:3)" in found["flags"].text


def test_a_long_list_is_cut(tmp_path: Path) -> None:
    """More flags than a line holds are counted."""
    (tmp_path / "views.py").write_text("".join(f'flag_enabled("f{n:02}")\n' for n in range(20)))
    assert "and 12 more" in checked(sources=(tmp_path,))["defaults"].text


@pytest.mark.parametrize(
    ("defaults", "flags", "level"),
    [
        ({}, {"a"}, Level.WARNING),
        ({"a": True}, {"a"}, Level.OK),
        ({}, set(), Level.OK),
        ({}, None, Level.OK),
    ],
)
def test_without_sources_the_environment_counts(
    defaults: dict[str, Any], flags: set[str] | None, level: Level
) -> None:
    """Where no read was found, flags without any declared default are a warning."""
    assert checked(defaults=defaults, flags=flags)["defaults"].level is level


def test_without_an_app_little_can_be_told() -> None:
    """What only an app's process shows is left out without one."""
    found = checked("")
    skipped = {name for name, finding in found.items() if finding.level is Level.SKIPPED}
    assert skipped == {"defaults", "hooks", "clients", "fork"}


def test_broken_settings_have_no_checklist() -> None:
    """Without a configuration there is nothing to go through."""
    assert not list(check(Subject(config=None), None))


def test_streaming_belongs_to_long_running_services() -> None:
    """Streaming that is off is a warning, save where nothing runs in the background anyway."""
    assert checked()["streaming"].level is Level.OK
    assert checked(stream=False)["streaming"].level is Level.WARNING
    assert checked(background=False)["streaming"].level is Level.SKIPPED


def test_events_are_to_be_delivered() -> None:
    """Checks that are only delivered when told to are a warning."""
    assert checked()["events"].level is Level.OK
    assert checked(analytics={"enabled": False})["events"].level is Level.OK
    assert "flushed()" in checked(background=False)["events"].advice


def test_lost_events_are_told() -> None:
    """Checks that were lost in this process are counted."""
    client = ShipSilentlyClient(
        config(analytics={"max_buffer_size": 1}), transport=ScriptedService(), clock=ManualClock()
    )
    for number in range(3):
        client.get(f"flag{number}", None)
    found = checked(client=client)["events"]
    assert found.level is Level.WARNING
    assert found.text == "2 flag checks of this process were lost"


def test_nobody_told_is_a_warning() -> None:
    """Without a receiver of states or failures both are warnings."""
    found = checked()
    assert found["hooks"].level is found["metrics"].level is Level.WARNING


@pytest.mark.parametrize("way", ["settings", "signals"])
def test_hooks_are_seen(way: str) -> None:
    """A function in the settings and a receiver of the signal are both enough."""

    def receiver(*args: Any, **kwargs: Any) -> None:
        """Count."""

    if way == "settings":
        found = checked(on_state_change=receiver, on_error=receiver)
    else:
        with (
            connection_state_changed.connected_to(receiver),
            evaluation_failed.connected_to(receiver),
        ):
            found = checked()
    assert found["hooks"].level is found["metrics"].level is Level.OK


def test_a_second_client_of_one_environment_is_seen() -> None:
    """Two clients with the same key are a warning; one, and closed ones, are not."""
    alone = Config(api_key="sk_live_only_this_test", api_url="http://flags.invalid")
    one, other = ShipSilentlyClient(alone), ShipSilentlyClient(alone)
    assert checked()["clients"].level is Level.WARNING
    one.close()
    other.close()
    assert "2 clients" not in checked()["clients"].text


@pytest.fixture
def started() -> Iterator[ShipSilentlyClient]:
    """A client whose background runs."""
    client = ShipSilentlyClient(config(), transport=ScriptedService({"a": 1}))
    client.start()
    yield client
    client.close()


def test_a_background_that_loading_started_is_seen(
    started: ShipSilentlyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An app whose import starts its client is a warning, which names the server that forks."""
    assert "starts the client's background" in checked(client=started)["fork"].text
    monkeypatch.setenv("GUNICORN_CMD_ARGS", "--preload -w 4")
    assert "gunicorn --preload forks after that" in checked(client=started)["fork"].text
    started.close()
    assert checked(client=started)["fork"].level is Level.OK


def test_a_ready_http_client_is_seen() -> None:
    """A ready `http_client` would be shared by forked workers; a function would not."""
    with httpx.Client() as ready:
        assert checked(http_client=ready)["fork"].level is Level.WARNING
    assert "is a ready client" not in checked(http_client=lambda: httpx.Client())["fork"].text
