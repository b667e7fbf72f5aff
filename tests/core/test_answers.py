"""An answer as it comes in, and what it says where it does not come to its end."""

from __future__ import annotations

import pytest

from shipsilently_core._answers import Answer, BadAnswer, Room
from shipsilently_core._wire import Reply
from tests.core.support import SoftTimeLimitExceeded

RETRY_AFTER = [(b"Retry-After", b"5"), (b"X-Other", b"x")]


def begun(status: int) -> Answer:
    """An answer whose head has come."""
    answer = Answer(Room(100))
    answer.begin(status, RETRY_AFTER)
    return answer


@pytest.mark.parametrize("status", [204, 301, 400, 401, 402, 404, 429, 500, 503])
def test_what_refuses_is_told_by_its_head(status: int) -> None:
    """Whatever its body has ended with, the status and what the headers say count."""
    answer = begun(status)
    answer.feed(b"half of a p")
    with answer:
        for error in (BadAnswer("too large"), TimeoutError(), OSError()):
            assert answer.cut_off(error) == Reply(status, headers={"retry-after": "5"})


def test_a_head_in_an_unknown_encoding_counts() -> None:
    """It has come, although what follows cannot be read."""
    answer = Answer(Room(100))
    with pytest.raises(BadAnswer):
        answer.begin(401, [(b"Content-Encoding", b"br")])
    with answer:
        reply = answer.cut_off(BadAnswer())
    assert reply == Reply(401, headers={"content-encoding": "br"})


def test_what_would_have_been_a_success_stays_a_failure() -> None:
    """The head of an answer with 200 is worth nothing without its body."""
    with pytest.raises(BadAnswer, match="too large"):
        begun(200).cut_off(BadAnswer("too large"))


def test_without_a_head_there_is_nothing_to_tell() -> None:
    """What went wrong before it is the failure."""
    with Answer(Room(100)) as answer, pytest.raises(OSError, match="reset"):
        answer.cut_off(OSError("reset"))


def test_the_end_of_the_task_is_no_answer() -> None:
    """A task queue's own limit of time goes on to whom it is meant for."""
    with pytest.raises(SoftTimeLimitExceeded):
        begun(429).cut_off(SoftTimeLimitExceeded())
