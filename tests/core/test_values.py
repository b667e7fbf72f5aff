"""The values that the client hands out."""

from __future__ import annotations

import copy
import pickle

import pytest

from shipsilently_core import (
    ConnectionState,
    EvaluationResult,
    Failure,
    FailureReport,
    Reason,
    Source,
)

RESULT = EvaluationResult("a", True, Reason.ROLLOUT, "r1", Source.CACHE)


@pytest.mark.parametrize(
    ("enum", "words"),
    [
        (
            Reason,
            "default rule_match rollout flag_disabled flag_not_found error_fallback",
        ),
        (Source, "server cache baseline bootstrap default override"),
        (ConnectionState, "idle streaming reconnecting polling"),
        (
            Failure,
            "network timeout auth throttled server protocol not_found type_mismatch store",
        ),
    ],
)
def test_the_words_are_the_documented_ones(
    enum: type[Reason | Source | ConnectionState | Failure], words: str
) -> None:
    """Each enumeration has exactly the documented words, and its members are those words."""
    assert [str(member) for member in enum] == words.split()
    assert all(member == str(member) for member in enum)


def test_results_are_frozen() -> None:
    """What is handed out to one caller cannot be changed for another."""
    with pytest.raises(AttributeError):
        RESULT.value = False  # type: ignore[misc]
    with pytest.raises(AttributeError):
        FailureReport(Failure.SERVER, 500, None, "x").status = 1  # type: ignore[misc]


@pytest.mark.parametrize("value", [RESULT, FailureReport(Failure.SERVER, 503, "a", "x")])
def test_values_can_be_copied_pickled_and_compared(value: object) -> None:
    """A value that goes through a queue or a cache comes back equal."""
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value
    assert value != "something else"


def test_a_result_needs_no_more_than_key_value_and_reason() -> None:
    """What is not known is said by None."""
    result = EvaluationResult("a", 1, "default")
    assert (result.rule_id, result.source, result.error) == (None, Source.SERVER, None)
