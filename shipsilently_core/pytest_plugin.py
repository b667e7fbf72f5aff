"""A pytest plugin: flags that a test sets, in every combination, with or without a service.

Marks ``flags``, ``flags_matrix`` and ``flags_offline``, the fixture ``flags``, and the ini
option ``shipsilently_offline``, with which no key is needed either. It works at the core, so
with every framework alike, and does nothing in tests that use none of these.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from . import signals
from ._overrides import overrides
from .config import KEY_VARIABLES
from .values import EvaluationResult

__all__ = ["FlagsOfTest", "flags"]

#: The option of the ini file that makes tests offline.
_OPTION = "shipsilently_offline"
#: What clients find for a key where nobody has set one, and no test may ask the service.
_NO_KEY = "offline"
#: The parameter that tells a test of a matrix which combination it is.
_COMBINATION = "_flags_combination"
#: More combinations than these are a mistake.
_MOST_COMBINATIONS = 64

_MARKS = (
    "flags(values, **named): flags that are set for the length of the test.",
    "flags_matrix(*keys, **values): every combination of these flags, on and off or as given.",
    "flags_offline(offline=True): whether a ShipSilently client may not use the network.",
)


class _Run:
    """One test that uses something of this plugin, from before its fixtures to after them.

    Attributes:
        offline: Whether it fails when the network would be used.
        read: The keys of the flags that it has read.
        layers: The values that it has set, the latest last.
    """

    def __init__(self, layers: Sequence[Mapping[str, Any]], *, offline: bool) -> None:
        self.offline = offline
        self.read: set[str] = set()
        self.layers: list[Mapping[str, Any]] = []
        self._unset: set[str] = set()
        self._outer = overrides.on_read, overrides.refused
        overrides.on_read = self.read.add
        if offline:
            overrides.refused = []
        signals.connect(signals.flag_evaluated, self._evaluated)
        for layer in layers:
            self.set(layer)

    def set(self, values: Mapping[str, Any]) -> None:
        """Set flags until the end of the test."""
        layer = dict(values)
        self.layers.append(layer)
        overrides.push(layer)

    def end(self) -> None:
        """Leave nothing behind."""
        for layer in self.layers:
            overrides.remove(layer)
        signals.disconnect(signals.flag_evaluated, self._evaluated)
        overrides.on_read, overrides.refused = self._outer

    def complaint(self) -> str | None:
        """What a test without the network has done wrong since the last complaint, if anything."""
        if not self.offline or not overrides.refused:
            return None
        asked = ", ".join(sorted({repr(client) for client in overrides.refused}))
        unset = ", ".join(sorted(map(repr, self._unset))) or "all flags at once"
        overrides.refused.clear()
        self._unset.clear()
        return (
            f"This test is offline, and {asked} would have asked the service, to read {unset}.\n"
            "Set them with @pytest.mark.flags, override_flags or the fixture flags; or allow the "
            "test the network with @pytest.mark.flags_offline(False)."
        )

    def _evaluated(self, client: object, *, result: EvaluationResult) -> None:
        self.read.add(result.flag_key)
        if any(client is refused for refused in overrides.refused or ()):
            self._unset.add(result.flag_key)


_RUN = pytest.StashKey[_Run]()


class FlagsOfTest:
    """The fixture ``flags``: sets flags in a test, and tells which ones were read."""

    def __init__(self, run: _Run) -> None:
        self._run = run

    def set(self, key: str, value: Any) -> None:
        """Set a flag until the end of the test, in every thread and task."""
        self._run.set({key: value})

    def __setitem__(self, key: str, value: Any) -> None:
        self.set(key, value)

    @property
    def read(self) -> frozenset[str]:
        """The keys of the flags that were read since the test began."""
        return frozenset(self._run.read)


@pytest.fixture
def flags(request: pytest.FixtureRequest) -> Iterator[FlagsOfTest]:
    """Sets flags, ``flags["new-checkout"] = True``, and tells which were read, ``flags.read``."""
    run = request.node.stash.get(_RUN, None)
    if run is not None:
        yield FlagsOfTest(run)
        return
    # Asked for by name at run time only, which nobody could foresee.
    run = _Run((), offline=False)
    try:
        yield FlagsOfTest(run)
    finally:
        run.end()


@pytest.fixture(name=_COMBINATION)
def _flags_combination(request: pytest.FixtureRequest) -> Any:
    """The values of this run of a matrix; they are set before any fixture is made."""
    return request.param


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the option."""
    parser.addini(
        _OPTION,
        "Fail tests in which a ShipSilently client would use the network.",
        type="bool",
        default=False,
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """See to it that apps can be imported without a key, which the first conftests may do."""
    if early_config.getini(_OPTION) and not any(map(os.environ.get, KEY_VARIABLES)):
        os.environ[KEY_VARIABLES[0]] = _NO_KEY
        early_config.add_cleanup(_forget_key)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks."""
    for mark in _MARKS:
        config.addinivalue_line("markers", mark)


def _forget_key() -> None:
    os.environ.pop(KEY_VARIABLES[0], None)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of each combination."""
    values: dict[str, Sequence[Any]] = {}
    for mark in metafunc.definition.iter_markers("flags_matrix"):
        # A set has another order in each process, and those of a run must make the same tests.
        if not all(isinstance(key, str) for key in mark.args) or not all(
            isinstance(given, Sequence) and not isinstance(given, str)
            for given in mark.kwargs.values()
        ):
            pytest.fail(
                f"{metafunc.definition.nodeid}: the mark flags_matrix takes the keys of switches, "
                "and lists of values for other flags: "
                '@pytest.mark.flags_matrix("new-checkout", banner=["blue", "green"])',
                pytrace=False,
            )
        values = dict.fromkeys(mark.args, (True, False)) | dict(mark.kwargs) | values
    if not values:
        return
    combinations = [
        dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())
    ]
    if not 0 < len(combinations) <= _MOST_COMBINATIONS:
        pytest.fail(
            f"{metafunc.definition.nodeid}: flags_matrix makes {len(combinations)} combinations of "
            f"its flags ({', '.join(values)}); it takes 1 to {_MOST_COMBINATIONS}",
            pytrace=False,
        )
    metafunc.fixturenames.append(_COMBINATION)
    metafunc.parametrize(
        _COMBINATION, combinations, indirect=True, ids=[_name(chosen) for chosen in combinations]
    )


def _name(combination: Mapping[str, Any]) -> str:
    words = {True: "on", False: "off"}
    return ",".join(
        f"{key}={words[value] if isinstance(value, bool) else value}"
        for key, value in combination.items()
    )


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Set flags before the first fixture is made."""
    layers = [_values(mark) for mark in item.iter_markers("flags")]
    # The nearest mark wins, so it comes last.
    layers.reverse()
    chosen = getattr(item, "callspec", None)
    if chosen is not None and _COMBINATION in chosen.params:
        layers.append(chosen.params[_COMBINATION])
    elif any(mark.args or mark.kwargs for mark in item.iter_markers("flags_matrix")):
        pytest.fail("flags_matrix works for functions, not for methods of unittest", pytrace=False)
    offline = _is_offline(item)
    if layers or offline or "flags" in getattr(item, "fixturenames", ()):
        item.stash[_RUN] = _Run(layers, offline=offline)
    with _judged(item, "setup"):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Fail a test that would have used the network."""
    with _judged(item, "call"):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Forget what the test has set once its fixtures are gone."""
    try:
        with _judged(item, "teardown"):
            return (yield)
    finally:
        run = item.stash.get(_RUN, None)
        if run is not None:
            del item.stash[_RUN]
            run.end()


def _values(mark: pytest.Mark) -> Mapping[str, Any]:
    if len(mark.args) > 1 or not all(isinstance(values, Mapping) for values in mark.args):
        pytest.fail(
            "the mark flags takes one mapping, or keywords: "
            '@pytest.mark.flags({"new-checkout": True}, banner="blue")',
            pytrace=False,
        )
    return {**(mark.args[0] if mark.args else {}), **mark.kwargs}


def _is_offline(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("flags_offline")
    if mark is None:
        return bool(item.config.getini(_OPTION))
    return bool(mark.args[0] if mark.args else mark.kwargs.get("offline", True))


@contextmanager
def _judged(item: pytest.Item, when: str) -> Iterator[None]:
    """Fail the test where it would have used the network; tell so where it has failed already."""
    run = item.stash.get(_RUN, None)
    try:
        yield
    except BaseException:
        complaint = None if run is None else run.complaint()
        if complaint is not None:
            item.add_report_section(when, "shipsilently", complaint)
        raise
    complaint = None if run is None else run.complaint()
    if complaint is not None:
        pytest.fail(complaint, pytrace=False)
