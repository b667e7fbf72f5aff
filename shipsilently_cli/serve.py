"""``shipsilently serve``: the local service until Ctrl-C or SIGTERM."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Never

import click

from shipsilently_local import LocalService, LocalServiceError, PortInUseError

__all__ = ["serve"]


@click.command()
@click.argument("flags_file", type=click.Path(path_type=Path))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=4400,
    show_default=True,
    help="Port on 127.0.0.1; 0 picks a free one.",
)
@click.option("--key", default="sk_local", show_default=True, help="The SDK key to accept.")
@click.option(
    "--heartbeat",
    type=click.FloatRange(min=0, min_open=True),
    default=30.0,
    show_default=True,
    help="Seconds between heartbeats on a stream.",
)
def serve(flags_file: Path, port: int, key: str, heartbeat: float) -> None:
    """Run the ShipSilently service on this machine, with the flags of FLAGS_FILE.

    FLAGS_FILE is TOML, YAML or JSON and is reloaded whenever it is saved.
    """
    with _until_told_to_stop():
        try:
            service = LocalService(
                flags_file, key, port, heartbeat=heartbeat, max_recorded=0, report=_say
            ).start()
        except PortInUseError as error:
            _fail(f"{error}: choose another with --port, or --port 0 for any free one")
        except LocalServiceError as error:
            _fail(str(error))
        try:
            _greet(service, flags_file)
            forever = threading.Event()
            while True:
                # Waking now and then lets a signal be noticed on every system.
                forever.wait(1.0)
        finally:
            service.stop()


def _greet(service: LocalService, flags_file: Path) -> None:
    count = len(service.state()["flags"])
    _say(
        f"ShipSilently is running on this machine: {count} flag{'' if count == 1 else 's'} "
        f"from {flags_file}\n"
        f"  url  {service.url}\n"
        f"  key  {service.key}\n"
        f"Start your app with\n"
        f"  SHIPSILENTLY_API_URL={service.url} SHIPSILENTLY_API_KEY={service.key}\n"
        f"Save the file to change a flag. Ctrl-C ends."
    )


@contextlib.contextmanager
def _until_told_to_stop() -> Iterator[None]:
    """End the block quietly on SIGINT or SIGTERM; a second one cannot disturb the end.

    A signal that is ignored (as SIGINT is in a shell's background job) stays so.
    """
    watched = [
        number
        for number in (signal.SIGINT, signal.SIGTERM)
        if signal.getsignal(number) is not signal.SIG_IGN
    ]

    def stop(number: int, frame: FrameType | None) -> None:
        for each in watched:
            signal.signal(each, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in watched}
    try:
        yield
    except KeyboardInterrupt:
        _say("Stopped.")
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _say(text: str) -> None:
    """Print it. Where whoever read the output has gone, the service goes on in silence."""
    try:
        click.echo(text)
    except OSError:
        # Nothing more may be written, at exit neither.
        sys.stdout = None


def _fail(problem: str) -> Never:
    click.echo(f"Error: {problem}", err=True)
    sys.exit(2)
