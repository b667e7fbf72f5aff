"""The demo's steps in their order, and what counts as having happened."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol

from ._board import Board, Step, outage_cell
from ._flagtext import save, with_default
from ._pages import ROUNDS, NotSeenError, Page, Timing
from ._stage import Stage

__all__ = ["StepFailedError", "check_flags", "perform"]

#: The flag that is switched, and one whose change makes everything the sites know stale.
_FLAG, _OTHER_FLAG = "new-checkout", "banner"

#: Seconds that a page may take to follow a change while the service is well.
_LIMIT = 10.0

#: The same after an outage, when the sites first have to come back to the service.
_BACK_LIMIT = 60.0

#: Milliseconds that an outage may add to a page's median. Far more than it does and far less
#: than waiting for the service would.
_MOST_ADDED = 500.0

#: Requests before the timed ones.
_WARM_UP = 10

_PAUSE = 0.02


class StepFailedError(Exception):
    """A step did not happen.

    Attributes:
        seen: For each framework that it did not happen for, what was seen instead.
    """

    def __init__(self, step: Step, seen: Mapping[str, str]) -> None:
        super().__init__(
            "\n".join(f"{name}, step {step.words!r}: {what}" for name, what in seen.items())
        )
        self.seen = seen


class _Check(Protocol):
    def __call__(self, name: str, page: Page) -> Awaitable[str]: ...


def check_flags(text: str) -> None:
    """Raise `ValueError` where a flags file has no line that the steps are to change."""
    for flag in (_FLAG, _OTHER_FLAG):
        with_default(text, flag, "")


async def perform(stage: Stage, board: Board) -> None:
    """Go through all steps on a stage that has been started.

    Raises:
        StepFailedError: One did not happen; those after it were not tried.
    """
    board.say("The flag is off.")
    await _for_each(stage, board, Step.OFF, _old)
    await _all_follow(stage)

    board.say(f"Switching {_FLAG} on in the file ...")
    _edit(stage, _FLAG, "true")
    await _for_each(stage, board, Step.ON, _becomes("new", _LIMIT))

    board.say("Measuring the pages as they are ...")
    await _measure(stage, board, Step.ON, _WARM_UP)
    before = await _measure(stage, board, Step.ON)

    board.say("The service answers 503, to the questions about a changed flag too ...")
    await stage.refuse()
    _edit(stage, _OTHER_FLAG, '"green"')
    await _outage(stage, board, Step.REFUSING, before)

    board.say("The service is killed ...")
    stage.kill_service()
    await _outage(stage, board, Step.KILLED, before)

    board.say("The service is started again ...")
    await stage.start_service()
    _edit(stage, _FLAG, "false")
    board.say(f"The service is back, {_FLAG} is switched off in the file ...")
    await _for_each(stage, board, Step.BACK, _becomes("old", _BACK_LIMIT))


def _edit(stage: Stage, flag: str, value: str) -> None:
    save(stage.flags, with_default(stage.flags.read_text(encoding="utf-8"), flag, value))


async def _all_follow(stage: Stage) -> None:
    """Give the sites time to open their streams, so that the next step shows a usual day.

    They may poll instead; whether they follow is for the next step to show.
    """
    limit = time.monotonic() + _LIMIT
    while time.monotonic() < limit:
        if await stage.followers() >= len(stage.pages):
            return
        await asyncio.sleep(_PAUSE)


async def _old(name: str, page: Page) -> str:
    await page.becomes("old", _LIMIT)
    return "old page"


def _becomes(variation: str, limit: float) -> _Check:
    async def check(name: str, page: Page) -> str:
        ms = await page.becomes(variation, limit)
        return f"{variation} page\nafter {ms:.0f} ms"

    return check


async def _outage(stage: Stage, board: Board, step: Step, before: Mapping[str, Timing]) -> None:
    during = await _measure(stage, board, step)

    async def check(name: str, page: Page) -> str:
        added = during[name].median - before[name].median
        if added > _MOST_ADDED:
            raise NotSeenError(f"pages wait for the service: {added:.0f} ms more, in the median")
        return outage_cell(during[name], before[name])

    await _for_each(stage, board, step, check)


async def _measure(
    stage: Stage, board: Board, step: Step, rounds: int = ROUNDS
) -> dict[str, Timing]:
    """Request each page so many times, one request at a time, all with the new checkout."""
    times: dict[str, list[float]] = {name: [] for name in stage.pages}

    async def check(name: str, page: Page) -> str:
        times[name].append(await page.stays("new"))
        return ""

    for _ in range(rounds):
        await _for_each(stage, board, step, check, at_once=False)
    return {name: Timing.of(all_times) for name, all_times in times.items()}


async def _for_each(
    stage: Stage, board: Board, step: Step, check: _Check, *, at_once: bool = True
) -> None:
    """Carry out a check for each page; show what it says, unless that is nothing."""
    seen: dict[str, str] = {}

    async def one(name: str, page: Page) -> None:
        try:
            cell = await check(name, page)
        except NotSeenError as error:
            seen[name] = str(error)
            board.fail(name, step)
        else:
            if cell:
                board.fill(name, step, cell)

    jobs: list[Callable[[], Awaitable[None]]] = [
        lambda name=name, page=page: one(name, page)  # type: ignore[misc]
        for name, page in stage.pages.items()
    ]
    if at_once:
        await asyncio.gather(*(job() for job in jobs))
    else:
        for job in jobs:
            await job()
    if seen:
        raise StepFailedError(step, seen)
