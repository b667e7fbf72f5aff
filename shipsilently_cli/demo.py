"""``shipsilently demo``: three sites through an outage of the service, on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import click
import httpx

from ._board import Board, make_console
from ._flagtext import save, without_schema
from ._processes import Children
from ._rehearsal import StepFailedError, check_flags, perform
from ._sites import example_sites, find_examples, missing_libraries
from ._stage import KEY, RefusedError, Stage, StartError

__all__ = ["demo"]

#: Seconds that a page may take before it counts as not answered.
_PAGE_TIMEOUT = 10.0

#: On a connection that is kept, the development servers' own answers take 40 ms now and then:
#: they leave head and body to Nagle's algorithm.
_HEADERS = {"Connection": "close"}

#: Seconds between two looks whether everything still runs, while the demo stays up.
_WATCH = 0.5


@click.command()
@click.option("--once", is_flag=True, help="End after the last step instead of staying up.")
@click.option(
    "--examples", type=click.Path(path_type=Path), hidden=True, help="The folder of the sites."
)
def demo(once: bool, examples: Path | None) -> None:
    """Show a flagged page in Django, Flask and FastAPI while the service has a bad day.

    Starts the service and the three example sites on free ports of this machine, switches a
    flag, lets the service fail, kills it, brings it back, and shows what the pages do.
    Everything it makes is in a temporary folder that goes at the end.
    """
    try:
        _check_libraries()
        folder = examples or find_examples(Path(__file__).resolve().parent)
        status = asyncio.run(_demo(folder.resolve(), once=once))
    except (RefusedError, FileNotFoundError) as error:
        click.echo(f"Error: {error}", err=True)
        status = 2
    sys.exit(status)


def _check_libraries() -> None:
    if missing := missing_libraries():
        names = ", ".join(name for each in missing.values() for name in each)
        raise RefusedError(
            f"`shipsilently demo` needs {names}: "
            f"install with  pip install 'shipsilently[{','.join([*missing, 'cli'])}]'"
        )


async def _demo(examples: Path, *, once: bool) -> int:
    """The whole demo; its exit status."""
    status = 0
    with _cancelled_by_signals() as told:
        try:
            with (
                tempfile.TemporaryDirectory(prefix="shipsilently-demo-") as name,
                Children(Path(name)) as children,
            ):
                async with httpx.AsyncClient(
                    timeout=_PAGE_TIMEOUT, trust_env=False, headers=_HEADERS
                ) as client:
                    flags = _copy_of_flags(examples, Path(name))
                    stage = Stage(children, client, Path(name), flags, example_sites(examples))
                    if not await _show(stage):
                        status = 1
                    elif not once:
                        status = await _stay(stage, told)
        except asyncio.CancelledError:
            if not told:
                raise
            # Before the last step it has not shown what it is to show.
            status = 128 + told[0]
        if told:
            click.echo("Stopped.")
    return status


def _copy_of_flags(examples: Path, folder: Path) -> Path:
    flags = folder / "flags.toml"
    try:
        text = (examples / flags.name).read_text(encoding="utf-8")
    except OSError as error:
        raise RefusedError(f"cannot read {examples / flags.name}: {error.strerror}") from None
    try:
        check_flags(text)
    except ValueError as error:
        raise RefusedError(f"{examples / flags.name}: {error}") from None
    save(flags, without_schema(text))
    return flags


async def _show(stage: Stage) -> bool:
    """All steps; whether they happened."""
    begin = time.monotonic()
    names = list(stage.pages)
    try:
        with Board(names, make_console()) as board:
            board.say(f"Starting the service and three sites: {', '.join(names)} ...")
            await stage.start()
            await perform(stage, board)
    except StartError as error:
        _tell_failure(str(error), {error.name: error.lines})
        return False
    except StepFailedError as error:
        _tell_failure(str(error), {name: stage.last_lines(name) for name in error.seen})
        return False
    click.echo(f"\nEvery step happened, in {time.monotonic() - begin:.0f} s.")
    return True


async def _stay(stage: Stage, told: Sequence[int]) -> int:
    """Say where everything is and wait for a signal; the exit status."""
    rows = [(name, page.url) for name, page in stage.pages.items()]
    rows += [("service", f"{stage.url}  (key {KEY})"), ("flags", str(stage.flags))]
    click.echo("\nAll of it stays up:")
    for name, place in rows:
        click.echo(f"  {name:<8} {place}")
    click.echo("Edit this file, save, reload a page. Ctrl-C ends.")
    try:
        while True:
            await asyncio.sleep(_WATCH)
            stage.check()
    except StartError as error:
        _tell_failure(str(error), {error.name: error.lines})
        return 1
    except asyncio.CancelledError:
        if told:
            return 0
        raise


def _tell_failure(problem: str, logs: Mapping[str, Sequence[str]]) -> None:
    click.echo(f"\nFAILED: {problem}", err=True)
    for name, lines in logs.items():
        if lines:
            click.echo(f"The last lines of {name}:", err=True)
            click.echo("\n".join(f"  {line}" for line in lines), err=True)


@contextlib.contextmanager
def _cancelled_by_signals() -> Iterator[Sequence[int]]:
    """Cancel the running task at SIGINT or SIGTERM, once; gives the signals that have come.

    A signal that is ignored (as SIGINT is in a shell's background job) stays so.
    """
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    assert task
    told: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        if not told:
            loop.call_soon_threadsafe(task.cancel)
        told.append(number)

    before = {
        number: signal.signal(number, stop)
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is not signal.SIG_IGN
    }
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
