"""The checks, in the order in which the first failure names the cause of those after it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from shipsilently_core._http import HttpTransport

from . import checklist, events, network, service, settings, streaming
from .findings import Checks, Finding, Level, skipped
from .session import Session
from .subject import Subject

__all__ = ["examine"]

#: Seconds; heartbeats come every 30.
_HEARTBEAT_PATIENCE = 35.0

#: The checks that need the service, in their order.
_REMOTE = (
    *("proxy", "dns", "tcp", "tls", "service", "access", "latency", "clock"),
    *("ticket", "stream", "heartbeat", "analytics"),
)


def _silent(text: str) -> None:
    """Where nobody wants to know what is being waited for."""


def examine(
    subject: Subject,
    *,
    quick: bool = False,
    patience: float = _HEARTBEAT_PATIENCE,
    progress: Callable[[str], None] = _silent,
) -> Iterator[Finding]:
    """Every finding, each as soon as it is known.

    Args:
        subject: What to examine.
        quick: Measure less and do not wait for a heartbeat.
        patience: Seconds to wait for a heartbeat.
        progress: Told of what takes a while.
    """
    yield from settings.check(subject)
    session = None
    if subject.config is None:
        yield from _rest(_REMOTE)
    else:
        transport = HttpTransport(subject.config)
        session = Session(subject.config, transport, quick, patience, progress)
        try:
            yield from _with_rest(_remote(session))
        finally:
            transport.close()
    flags = None if session is None else session.flags
    yield from checklist.check(subject, flags)
    yield from subject.framework(flags)


def _remote(session: Session) -> Checks:
    """From here to the service, and what it says; ends where nothing behind can be told."""
    for check in (network.check, service.check, streaming.check, events.check):
        going = yield from check(session)
        if not going:
            return False
    return True


def _with_rest(findings: Iterator[Finding]) -> Iterator[Finding]:
    """The findings, and a line for each check that was not come to."""
    told = set()
    level = Level.OK
    for finding in findings:
        told.add(finding.check)
        level = finding.level
        yield finding
    if level is Level.FAILURE:
        yield from _rest(name for name in _REMOTE if name not in told)


def _rest(names: Iterable[str]) -> Iterator[Finding]:
    for name in names:
        yield skipped(name, "not looked at, because of the failure above")
