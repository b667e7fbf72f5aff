"""What went wrong with a call to the service, in words; for the commands of the frameworks too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shipsilently_core import EvaluationError, Failure, ShipSilentlyClient
from shipsilently_core.signals import evaluation_failed

__all__ = ["explain", "explained", "failures_of"]


def explain(failure: Failure, status: int | None = None, flag_key: str | None = None) -> str:
    """One clause, without a full stop, for people.

    Args:
        failure: The class of the failure.
        status: The HTTP status, where there was an answer.
        flag_key: The flag that was asked for.
    """
    answer = "" if status is None else f" (HTTP {status})"
    match failure:
        case Failure.NETWORK:
            return "the service cannot be reached"
        case Failure.TIMEOUT:
            return "the service did not answer within the timeout"
        case Failure.AUTH:
            return f"the key is refused{answer}"
        case Failure.THROTTLED:
            return f"the service asks to be left alone for a while{answer}"
        case Failure.SERVER:
            return f"the service failed{answer}"
        case Failure.NOT_FOUND:
            return "there is no such flag" if flag_key is None else f"there is no flag {flag_key!r}"
        case Failure.TYPE_MISMATCH:
            return "the flag's value is of another type than the default"
        case Failure.STORE:
            return "the store failed"
        case _:
            return f"what answered does not speak as the service does{answer}"


def explained(error: EvaluationError) -> str:
    """`explain` for what a client without a cache raises."""
    return explain(error.failure, error.status, error.flag_key)


@contextmanager
def failures_of(client: ShipSilentlyClient) -> Iterator[list[str]]:
    """What goes wrong with the client's evaluations in this block, each as `explain` says it."""
    found: list[str] = []

    def note(
        sender: object, *, failure: Failure, status: int | None, flag_key: str | None, **_: Any
    ) -> None:
        found.append(explain(failure, status, flag_key))

    with evaluation_failed.connected_to(note, sender=client):
        yield found
