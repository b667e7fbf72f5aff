"""The exceptions."""

from __future__ import annotations

import copy
import pickle

import pytest

from shipsilently_core import (
    ClientClosedError,
    ConfigurationError,
    EvaluationError,
    Failure,
    ShipSilentlyError,
)

ERRORS = [
    ConfigurationError("timeout", "must be more than 0 seconds"),
    EvaluationError(Failure.SERVER, 503, "checkout-v2"),
    EvaluationError(Failure.NETWORK, None, None),
    ClientClosedError("closed"),
]


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_one_except_clause_catches_them_all(error: Exception) -> None:
    """Every exception of the package has one root."""
    assert isinstance(error, ShipSilentlyError)


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_exceptions_survive_pickling(error: Exception) -> None:
    """An exception that crosses a process keeps its text and its fields."""
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert vars(twin) == vars(error)


def test_a_configuration_error_is_a_value_error_that_names_the_setting() -> None:
    """It can be caught as what it is in Python, and says where to look."""
    error = ConfigurationError("timeout", "must be more than 0 seconds")
    assert isinstance(error, ValueError)
    assert (error.setting, error.problem) == ("timeout", "must be more than 0 seconds")
    assert str(error) == "timeout: must be more than 0 seconds"


def test_an_evaluation_error_says_what_failed_and_how() -> None:
    """The text names the flag, the class of failure and the status, where there are any."""
    assert str(ERRORS[1]) == "could not evaluate flag 'checkout-v2': server (HTTP 503)"
    assert str(ERRORS[2]) == "could not evaluate all flags: network"
