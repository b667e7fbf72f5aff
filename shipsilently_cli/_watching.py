"""Following a client: states, flags and failures as lines, each as soon as it is known."""

from __future__ import annotations

import itertools
import json
import queue
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from shipsilently_core import ConnectionState, EvaluationResult, Failure, ShipSilentlyClient
from shipsilently_core._watch import same
from shipsilently_core.signals import evaluation_failed

__all__ = ["watch"]

Results = dict[str, EvaluationResult]


def watch(
    client: ShipSilentlyClient,
    context: Mapping[str, Any] | None,
    write: Callable[[str], object],
    *,
    as_json: bool,
    count: int | None = None,
) -> None:
    """Write a line for whatever happens, until Ctrl-C.

    Args:
        client: Whose connection to follow.
        context: Whom the flags are for; ``None``: the client's own background context.
        write: Prints one line at once.
        as_json: An object a line, for programs.
        count: End after so many lines.
    """
    # Filled by the client's threads, emptied by this one.
    happened: queue.SimpleQueue[_Happening] = queue.SimpleQueue()

    def failed(sender: object, *, failure: Failure, status: int | None, **_: Any) -> None:
        happened.put(_Happening(failure=failure, status=status))

    form = _as_json if as_json else _as_text
    lines = itertools.count(1)

    def tell(kind: str, **what: Any) -> None:
        write(form(kind, what))
        if next(lines) == count:
            raise _Enough

    teller = _Teller(tell)
    who = client.config.baseline_context if context is None else context
    try:
        tell("watching", url=client.config.api_url)
        with (
            evaluation_failed.connected_to(failed, sender=client),
            client.stream(
                who,
                lambda results: happened.put(_Happening(results=results)),
                on_state_change=lambda state: happened.put(_Happening(state=state)),
            ),
        ):
            while True:
                try:
                    # Waking now and then lets Ctrl-C be noticed on every system.
                    teller.take(happened.get(timeout=1.0))
                except queue.Empty:
                    continue
    except (KeyboardInterrupt, _Enough):
        return


class _Enough(Exception):
    """As many lines were written as were wanted."""


class _Happening:
    """One of the three things that a client tells."""

    def __init__(
        self,
        *,
        state: ConnectionState | None = None,
        results: Results | None = None,
        failure: Failure | None = None,
        status: int | None = None,
    ) -> None:
        self.state = state
        self.results = results
        self.failure = failure
        self.status = status


class _Teller:
    """Turns what happened into lines, without saying anything twice."""

    def __init__(self, tell: Callable[..., object]) -> None:
        self.tell = tell
        self._last: Results | None = None
        self._failure: tuple[Failure, int | None] | None = None

    def take(self, happening: _Happening) -> None:
        """Tell of it."""
        if happening.state is not None:
            if happening.state is ConnectionState.STREAMING:
                self._failure = None
            self.tell("state", state=str(happening.state))
        if happening.failure is not None:
            failure = (happening.failure, happening.status)
            if failure != self._failure:
                self._failure = failure
                self.tell("failure", failure=str(failure[0]), status=failure[1])
        if happening.results is not None:
            self._compare(happening.results)

    def _compare(self, results: Results) -> None:
        last, self._last = self._last, results
        for key in sorted({*results, *(last or {})}):
            new = results.get(key)
            if last is None:
                self.tell("flag", flag=key, **_told("new", new), reason=_reason(new))
                continue
            old = last.get(key)
            if old is None or new is None or not same(old.value, new.value):
                what = {**_told("old", old), **_told("new", new)}
                self.tell("change", flag=key, **what, reason=_reason(new))


def _told(name: str, result: EvaluationResult | None) -> dict[str, Any]:
    """A flag that is not there has no value, which is another thing than null."""
    return {} if result is None else {name: result.value}


def _reason(result: EvaluationResult | None) -> str | None:
    return None if result is None else str(result.reason)


def _as_json(kind: str, what: dict[str, Any]) -> str:
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "event": kind, **what}, ensure_ascii=False)


def _as_text(kind: str, what: dict[str, Any]) -> str:
    match kind:
        case "flag" | "change":
            names = ("new",) if kind == "flag" else ("old", "new")
            values = [
                json.dumps(what[name], ensure_ascii=False) if name in what else "not there"
                for name in names
            ]
            reason = f" ({what['reason']})" if what["reason"] else ""
            text = f"{what['flag']}  {' → '.join(values)}{reason}"
        case "failure":
            status = "" if what["status"] is None else f" (HTTP {what['status']})"
            text = f"{what['failure']}{status}"
        case "state":
            text = what["state"]
        case _:
            text = what["url"]
    return f"{time.strftime('%H:%M:%S')}  {kind:8}  {text}"
