"""What several exporters need."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from shipsilently_core.contrib._shared import CALL_FAILURES, aged, attribute, status_of
from shipsilently_core.values import Failure
from tests.core.support import setup

LIBRARIES = ("opentelemetry", "prometheus_client", "sentry_sdk", "structlog")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, True),
        (0, 0),
        (1.5, 1.5),
        (2**63 - 1, 2**63 - 1),
        (2**70, str(2**70)),
        ("green", "green"),
        ("x" * 200, "x" * 200),
        ("x" * 201, "x" * 197 + "…"),
        ({"a": [1]}, '{"a":[1]}'),
        (None, "null"),
    ],
)
def test_a_value_is_shown_as_tools_take_it(value: Any, shown: Any) -> None:
    """Short, and never an object."""
    assert attribute(value) == shown
    assert type(attribute(value)) is type(shown)


@pytest.mark.parametrize(
    ("age", "shown"),
    [
        (None, "cache"),
        (0.4, "cache, 0 s old"),
        (119, "cache, 119 s old"),
        (120, "cache, 2 min old"),
        (7199, "cache, 119 min old"),
        (7200, "cache, 2 h old"),
        (172_799, "cache, 47 h old"),
        (9e6, "cache, 104 d old"),
    ],
)
def test_an_age_is_shown_in_its_unit(age: float | None, shown: str) -> None:
    """Nothing is said of the age of a current value."""
    assert aged("cache", age) == shown


def test_a_failing_store_is_no_failed_call() -> None:
    """Nor are a flag that does not exist and one of another type."""
    assert set(Failure) - set(CALL_FAILURES) == {
        Failure.NOT_FOUND,
        Failure.TYPE_MISMATCH,
        Failure.STORE,
    }


def test_the_present_client_is_asked_for_each_time() -> None:
    """A function that gives the client is called whenever its status is wanted, and not before."""
    one, other = setup({"a": 1}).client, setup({"a": 1}).client
    other.evaluate_all()
    clients = iter([one, other])
    status = status_of(lambda: next(clients))
    assert [status().attempts, status().attempts] == [0, 1]
    assert status_of(other)().attempts == 1


def test_no_exporter_is_imported_by_the_core() -> None:
    """Importing the core and its exporters' package imports no tool, and `logs` none either."""
    code = (
        "import sys, shipsilently_core.contrib.health\n"
        "assert 'shipsilently_core.contrib.logs' not in sys.modules\n"
        "import shipsilently_core.contrib.logs\n"
        f"assert not set({LIBRARIES!r}) & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
