"""What the package offers at its top, and what importing it costs."""

import subprocess
import sys

import pytest
import shipsilently_flask
from flask import Blueprint
from shipsilently_flask import flags
from shipsilently_flask.signals import flag_evaluated, gate_refused

from shipsilently_core import testing


def test_the_public_names() -> None:
    """The package exports these names, in order."""
    assert shipsilently_flask.__all__ == [
        "FlaskCachingStore",
        "ShipSilently",
        "flags",
        "health_blueprint",
        "override_flags",
        "requires_flag",
    ]


def test_overrides_are_the_cores_own() -> None:
    """`override_flags` is the one of the core, so both spellings act on the same flags."""
    assert shipsilently_flask.override_flags is testing.override_flags


def test_a_gate_can_be_put_without_any_context() -> None:
    """`flags.gate` works while modules are imported, where `flags` stands for nothing yet."""
    blueprint = Blueprint("labs", __name__)
    flags.gate(blueprint, "x")
    assert blueprint.before_request_funcs[None]


def test_signals_have_names() -> None:
    """A signal shows its name where it is printed."""
    assert (gate_refused.name, flag_evaluated.name) == ("gate-refused", "flag-evaluated")


def test_importing_loads_nothing_that_may_be_missing() -> None:
    """Without Flask-Login, the toolbar or asgiref the package works, and opens no connection."""
    code = (
        "import sys, threading, shipsilently_flask\n"
        "assert threading.active_count() == 1\n"
        "assert not {'flask_login', 'flask_debugtoolbar', 'asgiref'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=30)


def test_what_only_tests_or_event_loops_need_is_not_imported() -> None:
    """A server that imports the package gets neither asyncio nor unittest by that."""
    code = (
        "import sys, shipsilently_flask\n"
        "assert not {'asyncio', 'unittest', 'shipsilently_core.testing'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=30)


def test_a_name_that_does_not_exist_is_told_as_ever() -> None:
    """Asking the package for another name raises the `AttributeError` that says which."""
    with pytest.raises(AttributeError, match="'shipsilently_flask' has no attribute 'flagz'"):
        _ = shipsilently_flask.flagz  # type: ignore[attr-defined]  # as is proven here
