"""The pytest plugin, in runs of pytest inside of these."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import shipsilently_core.pytest_plugin
from shipsilently_core import Failure, ShipSilentlyClient
from shipsilently_core._overrides import overrides
from shipsilently_core.pytest_plugin import FlagsOfTest
from shipsilently_core.signals import flag_evaluated
from shipsilently_core.testing import ScriptedService
from tests.core.support import setup

pytest_plugins = ["pytester"]

Run = Callable[..., pytest.RunResult]

#: What every file of tests begins with: a client of a scripted service, and one of none.
HEAD = """
import asyncio, unittest
import pytest
from shipsilently_core import Config, ShipSilentlyClient
from shipsilently_core.testing import ManualClock, ScriptedService, override_flags

scripted = ShipSilentlyClient(
    api_key="k", transport=ScriptedService({"x": False, "banner": "red"}), background=False
)
online = ShipSilentlyClient(api_key="k", api_url="http://127.0.0.1:9")

def read(key="x", default=False, client=scripted):
    return client.flags({"userId": "u1"}).get(key, default)
"""


INI = """
[pytest]
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
strict_config = true
strict_markers = true
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> Iterator[Run]:
    """Runs tests with the plugin, every warning an error; afterwards nothing is left behind."""

    def run(source: str, *arguments: str, ini: str = "") -> pytest.RunResult:
        pytester.makeini(f"{INI}{ini}")
        pytester.makepyfile(HEAD + source)
        plain = ("-p", "no:django", "-p", "no:cacheprovider", "-W", "error", "--timeout=60")
        return pytester.runpytest_inprocess(*plain, *arguments)

    before = overrides.on_read, overrides.refused, set(flag_evaluated.receivers)
    yield run
    assert not overrides.values
    assert (overrides.on_read, overrides.refused, set(flag_evaluated.receivers)) == before


def test_a_mark_sets_flags_for_the_test(run: Run) -> None:
    """Fixtures, the test and its teardown see the marked values, the nearest mark wins."""
    run("""
@pytest.fixture
def seen():
    before = read()
    yield before
    assert read() is before

@pytest.mark.flags(x=True, **{"dotted.key": "blue"})
def test_marked(seen):
    assert seen is True
    assert read("dotted.key", "") == "blue"

def test_not_marked(seen):
    assert seen is False

@pytest.mark.flags({"x": True, "banner": "green"})
class TestMarked:
    @pytest.mark.flags({"banner": "blue"})
    def test_nearest(self):
        assert (read(), read("banner", "")) == (True, "blue")

    @pytest.mark.flags(x=False)
    async def test_coroutine(self):
        assert (read(), read("banner", "")) == (False, "green")

@pytest.mark.flags(x=True)
class TestCase(unittest.TestCase):
    def test_method(self):
        assert read() is True

@pytest.mark.parametrize("on", [False, pytest.param(True, marks=pytest.mark.flags(x=True))])
def test_of_a_parameter(on):
    assert read() is on
""").assert_outcomes(passed=7)


def test_flags_of_a_failed_test_are_gone(run: Run) -> None:
    """Neither a failing test nor one whose fixture fails leaves a value to the next."""
    run(
        """
@pytest.fixture
def broken():
    raise LookupError

@pytest.mark.flags(x=True)
def test_a_fails():
    assert not read()

@pytest.mark.flags(x=True)
def test_b_breaks(broken):
    pass

def test_c_is_clean():
    assert read() is False
""",
        "-p",
        "no:randomly",
    ).assert_outcomes(passed=1, failed=1, errors=1)


@pytest.mark.parametrize("mark", ['"x"', "{}, {}", '["x"]'])
def test_a_wrong_mark_is_an_error_of_its_test(run: Run, mark: str) -> None:
    """A mark that is no mapping fails its test alone, and says what it takes."""
    result = run(f"""
@pytest.mark.flags({mark})
def test_wrong(): pass

def test_other(): pass
""")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines("*the mark flags takes one mapping, or keywords*")


def test_a_matrix_runs_every_combination(run: Run) -> None:
    """Two switches make four tests, each with a name that says which it is."""
    result = run(
        """
seen = []

@pytest.mark.flags(x=True, other=True)
@pytest.mark.flags_matrix("x", "y-z")
def test_matrix():
    seen.append((read(), read("y-z"), read("other")))

def test_seen():
    assert seen == [(a, b, True) for a in (True, False) for b in (True, False)]
""",
        "-v",
        "-p",
        "no:randomly",
    )
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(
        [
            "*test_matrix[[]x=on,y-z=on[]] PASSED*",
            "*test_matrix[[]x=on,y-z=off[]] PASSED*",
            "*test_matrix[[]x=off,y-z=on[]] PASSED*",
            "*test_matrix[[]x=off,y-z=off[]] PASSED*",
        ]
    )


def test_a_matrix_takes_values_and_other_parameters(run: Run) -> None:
    """Flags that are no switches have their values given; classes and parameters multiply."""
    result = run(
        """
@pytest.mark.flags_matrix("x")
class TestMatrix:
    @pytest.mark.flags_matrix(banner=["blue", "green"])
    @pytest.mark.parametrize("n", [1, 2])
    async def test_matrix(self, n):
        assert read("banner", "") in ("blue", "green")
""",
        "-v",
    )
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines("*test_matrix[[]*x=on,banner=green*")


def test_a_matrix_is_a_parameter_like_others(run: Run) -> None:
    """What makes the combinations is a fixture that pytest can be asked for."""
    run("""
@pytest.mark.flags_matrix("x")
def test_matrix(request):
    assert request.getfixturevalue("_flags_combination") == {"x": read()}
""").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("mark", "count"), [('*"abcdefg"', "128 combinations of its flags"), ("x=[]", "0 combinations")]
)
def test_a_matrix_has_bounds(run: Run, mark: str, count: str) -> None:
    """A matrix of too many combinations, or of none, is an error while tests are collected."""
    result = run(f"""
@pytest.mark.flags_matrix({mark})
def test_matrix(): pass
""")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(f"*flags_matrix makes {count}*")


@pytest.mark.parametrize("mark", ['x="blue"', "x=True", 'x={"blue", "green"}', '{"x": [1]}', "5"])
def test_a_wrong_matrix_is_an_error(run: Run, mark: str) -> None:
    """A text is no list of its letters, and what is no key is told with an example."""
    result = run(f"""
@pytest.mark.flags_matrix({mark})
def test_matrix(): pass
""")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines("*test_matrix: the mark flags_matrix takes the keys of switches*")


def test_a_matrix_of_a_unittest_case_is_refused(run: Run) -> None:
    """Where pytest makes no combinations, the mark says so instead of testing just one."""
    result = run("""
class TestCase(unittest.TestCase):
    @pytest.mark.flags_matrix("x")
    def test_method(self): pass
""")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines("*not for methods of unittest*")


def test_an_empty_matrix_is_none(run: Run) -> None:
    """A mark without flags makes one test."""
    result = run("""
@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.flags_matrix()
def test_matrix(n): pass
""")
    result.assert_outcomes(passed=2)


def test_the_fixture_sets_flags_and_tells_which_were_read(run: Run) -> None:
    """What it sets wins over marks and is gone afterwards; it hears of every flag that is read."""
    run(
        """
@pytest.fixture
def early():
    return read("banner", "")

@pytest.mark.flags(x=True, unread=True)
def test_sets(flags, early):
    assert flags.read == {"banner"}
    assert read() is True
    flags.set("x", False)
    assert read() is False
    flags["x"] = True
    assert read() is True
    assert flags.read == {"banner", "x"}
    assert "unread" not in flags.read

def test_is_gone(flags):
    assert read() is False
    assert flags.read == {"x"}

async def test_other_threads(flags):
    flags["x"] = True
    assert await asyncio.to_thread(read) is True
    assert flags.read == {"x"}

def test_late(request):
    late = request.getfixturevalue("flags")
    late["x"] = True
    assert read() is True
    assert late.read == {"x"}

@pytest.mark.flags(x=True)
def test_late_and_marked(request):
    read()
    assert request.getfixturevalue("flags").read == {"x"}
""",
        "-p",
        "no:randomly",
    ).assert_outcomes(passed=5)


OFFLINE = """
@pytest.fixture
def asks_early():
    read("early", client=online)

@pytest.fixture
def asks_late():
    yield
    read("late", client=online)

@pytest.mark.flags(x=True, early=True, late=True)
async def test_all_is_set(asks_early, asks_late):
    online.start()
    assert read(client=online) is True
    assert (await online.flags().aload()).get("x", False) is True
    assert online.evaluate("x", None, False) is True
    assert await online.aevaluate("x", None, False) is True

def test_fakes_are_fine():
    assert read("banner", "") == "red"

def test_what_is_known_is_fine():
    assert online.get("x", True) is True
    assert online.flush() == 0
    assert asyncio.run(online.aflush()) == 0

def test_asks():
    assert read("banner", "blue", client=online) == "blue"

def test_asks_for_all():
    assert online.evaluate_all() == {}

async def test_asks_in_a_task():
    assert await online.flags().aget("banner", "blue") == "blue"

async def test_asks_for_one():
    assert await online.aevaluate("banner", None, "blue") == "blue"

def test_asks_in_a_fixture(asks_early):
    pass

def test_asks_in_teardown(asks_late):
    pass

def test_asks_and_fails():
    assert read("banner", "", client=online) == "red"

@pytest.mark.xfail(strict=True, reason="it would use the network")
def test_may_fail():
    read(client=online)
"""


def test_a_test_can_be_offline(run: Run) -> None:
    """A test that would use the network fails, with the flags that it should have set."""
    result = run(OFFLINE, ini="shipsilently_offline = true")
    # The one that asks in its teardown has passed before.
    result.assert_outcomes(passed=4, failed=5, errors=2, xfailed=1)
    result.stdout.fnmatch_lines_random(
        [
            "This test is offline, and <ShipSilentlyClient http://127.0.0.1:9> would *'banner'.",
            "*to read all flags at once.",
            "*to read 'early'.",
            "*to read 'late'.",
            "*- Captured shipsilently call -*",
        ]
    )


def test_a_test_can_have_the_network_again(run: Run) -> None:
    """The mark says it for one test, whatever the option says."""
    source = """
failures = []
other = ShipSilentlyClient(
    api_key="k", api_url="http://127.0.0.1:9", on_error=failures.append, background=False
)

def test_default():
    read(client=other)
    assert failures.pop().failure == "network"

@pytest.mark.flags_offline(False)
def test_online():
    read("y", client=other)

@pytest.mark.flags_offline(offline=False)
def test_online_by_name():
    read("y", client=other)

@pytest.mark.flags_offline
def test_offline():
    read(client=other)
"""
    run(source).assert_outcomes(passed=3, failed=1)
    run(source, ini="shipsilently_offline = true").assert_outcomes(passed=2, failed=2)


def test_who_uses_nothing_of_it_notices_nothing(run: Run) -> None:
    """A test without marks has no overrides, no listeners, and may define its own `flags`."""
    run("""
from shipsilently_core import signals
from shipsilently_core._overrides import overrides

@pytest.fixture
def flags():
    return "mine"

def test_plain():
    assert not signals.flag_evaluated.receivers
    assert (overrides.values, overrides.on_read, overrides.refused) == ({}, None, None)

def test_own_fixture(flags):
    assert flags == "mine"
""").assert_outcomes(passed=2)


def test_the_plugin_is_installed(pytestconfig: pytest.Config) -> None:
    """pytest finds the plugin by itself."""
    assert pytestconfig.pluginmanager.get_plugin("shipsilently") is shipsilently_core.pytest_plugin


def test_it_works_in_this_very_run(flags: FlagsOfTest) -> None:
    """The fixture needs no run of its own."""
    flags["a"] = 2
    assert setup({"a": 1}).client.flags().get("a", 0) == 2
    assert flags.read == {"a"}


@pytest.fixture
def refused() -> Iterator[list[object]]:
    """Makes clients offline; the clients that would have asked."""
    refused: list[object] = []
    overrides.refused = refused
    yield refused
    overrides.refused = None


def test_offline_a_client_serves_what_it_knows(refused: list[object]) -> None:
    """What is fresh is served without complaint, what is stale with one, nothing is started."""
    client = ShipSilentlyClient(api_key="k", api_url="http://127.0.0.1:9", defaults={"a": 5})
    client.start()
    assert client.connection_state == "idle"
    assert client.flags().get("a") == 5
    assert client.flags().detail("a").error is Failure.TIMEOUT
    assert refused == [client, client]
    client.close()
    assert client.flags().get("a") == 5
    assert client.evaluate("a") == 5
    assert refused == [client, client]


def test_a_scripted_service_is_no_network(refused: list[object]) -> None:
    """Clients of fakes go on as ever."""
    s = setup({"a": 1})
    assert s.client.flags().get("a", 0) == 1
    assert s.client.evaluate("a", None, 0) == 1
    assert refused == []


def test_what_was_evaluated_before_is_fresh_offline(refused: list[object]) -> None:
    """A client that has asked before its test became offline serves that."""
    service = ScriptedService({"a": 1})
    client = ShipSilentlyClient(api_key="k", background=False)
    client._transport = service
    overrides.refused = None
    client.evaluate_all()
    overrides.refused = refused
    assert client.flags().get("a", 0) == 1
    assert refused == []
    assert client.flush() == 0
    assert service.events == []


def test_refusals_are_noted_only_while_offline() -> None:
    """A client whose test has just ended notes nothing."""
    overrides.refuse(Any)
    assert overrides.refused is None


@pytest.mark.parametrize(("ini", "given"), [("", None), ("shipsilently_offline = true", "offline")])
def test_offline_an_app_can_be_imported_without_a_key(
    run: Run, monkeypatch: pytest.MonkeyPatch, ini: str, given: str | None
) -> None:
    """A client finds a key then, which is gone from the environment after the run."""
    monkeypatch.delenv("SHIPSILENTLY_API_KEY", raising=False)
    monkeypatch.delenv("SHIPSILENTLY_KEY", raising=False)
    source = f"""
import os

def test_key():
    assert os.environ.get("SHIPSILENTLY_API_KEY") == {given!r}
"""
    run(source, ini=ini).assert_outcomes(passed=1)
    assert "SHIPSILENTLY_API_KEY" not in os.environ


def test_offline_a_key_that_is_set_stays(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under either of its names, so that a test that may use the network uses that key."""
    monkeypatch.delenv("SHIPSILENTLY_API_KEY", raising=False)
    monkeypatch.setenv("SHIPSILENTLY_KEY", "mine")
    source = """
def test_key():
    assert Config().api_key == "mine"
"""
    run(source, ini="shipsilently_offline = true").assert_outcomes(passed=1)


def test_offline_a_conftest_may_import_an_app(
    run: Run, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first conftests are imported before anything else, and find a key already."""
    monkeypatch.delenv("SHIPSILENTLY_API_KEY", raising=False)
    monkeypatch.delenv("SHIPSILENTLY_KEY", raising=False)
    pytester.makeconftest("from shipsilently_core import ShipSilentlyClient\nShipSilentlyClient()")
    source = """
def test_nothing():
    pass
"""
    run(source, ini="shipsilently_offline = true").assert_outcomes(passed=1)
