"""uvicorn, hypercorn, daphne and gunicorn's ASGI worker: lifespans, or none, and event loops."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from shipsilently_local import LocalService
from tests.servers.checks import (
    assert_changes_arrive_everywhere,
    assert_ends_quickly,
    assert_nobody_gets_anothers_answer,
    assert_one_stream_each,
    assert_quiet,
    serving_processes,
)
from tests.servers.harness import Server, opened_streams

pytestmark = pytest.mark.timeout(90)

FASTAPI = "tests.servers.apps.fastapi_site:app"
DJANGO = "tests.servers.apps.django_asgi:application"
UVICORN = ["uvicorn", "--host", "127.0.0.1", "--port", "{port}", "--no-access-log"]
GUNICORN = ["gunicorn", "--no-control-socket", "--bind", "127.0.0.1:{port}", "--workers", "2"]
HYPERCORN = ["hypercorn", "--bind", "127.0.0.1:{port}", "--workers", "2"]
DAPHNE = ["daphne", "--bind", "127.0.0.1", "--port", "{port}"]


class Kind(NamedTuple):
    """A server with a site.

    Attributes:
        command: How it is started.
        processes: How many processes serve.
        has_lifespan: Whether it runs the site's lifespan.
        has_end: Whether SIGTERM lets anything of ours run.
    """

    command: list[str]
    processes: int
    has_lifespan: bool
    has_end: bool = True


SERVERS = {
    "uvicorn": Kind([*UVICORN, FASTAPI], 1, True),
    "uvicorn 2 workers": Kind([*UVICORN, "--workers", "2", FASTAPI], 2, True),
    # Neither a lifespan nor atexit: uvicorn sends itself the signal again.
    "uvicorn Django": Kind([*UVICORN, "--lifespan", "off", DJANGO], 1, False, False),
    "hypercorn": Kind([*HYPERCORN, FASTAPI], 2, True),
    "daphne FastAPI": Kind([*DAPHNE, FASTAPI], 1, False),
    "daphne Django": Kind([*DAPHNE, DJANGO], 1, False),
    "gunicorn asgi": Kind([*GUNICORN, "--worker-class", "asgi", FASTAPI], 2, True),
    "gunicorn asgi preload": Kind(
        [*GUNICORN, "--preload", "--worker-class", "asgi", FASTAPI], 2, True
    ),
}

# It tells people to install the lifespan, which daphne never runs.
TOLD = "no lifespan of the app has run"


@pytest.mark.parametrize("name", SERVERS)
def test_each_process_streams_once_and_ends_on_sigterm(
    name: str, service: LocalService, tmp_path: Path, say: Callable[[str], None]
) -> None:
    """Each process streams once, from its lifespan or else its first flag on; SIGTERM ends all,
    and where anything of ours runs then, the last events arrive."""
    command, count, has_lifespan, has_end = SERVERS[name]
    with Server(command, service, tmp_path) as server:
        if has_lifespan:
            assert service.wait_for_streams(count, 10), "the lifespan starts no stream"
        else:
            assert opened_streams(service) == (0, 0), "something started before a flag was read"
        pids = serving_processes(server, count)
        assert_one_stream_each(service, pids)
        assert_nobody_gets_anothers_answer(server)
        assert_changes_arrive_everywhere(server, service, pids)
        assert_one_stream_each(service, pids)
        seconds = assert_ends_quickly(server, service, signal.SIGTERM, delivers=has_end)
    assert_quiet(server, TOLD)
    say(f"{name}: SIGTERM ends it in {seconds:.2f} s")


@pytest.mark.parametrize("name", SERVERS)
def test_ctrl_c_ends_it(
    name: str, service: LocalService, tmp_path: Path, say: Callable[[str], None]
) -> None:
    """Ctrl-C ends every process while it streams, without a word of ours, and the events arrive."""
    with Server(SERVERS[name].command, service, tmp_path) as server:
        seconds = assert_ends_quickly(server, service, signal.SIGINT, delivers=True)
    assert_quiet(server, TOLD)
    say(f"{name}: Ctrl-C ends it in {seconds:.2f} s")


def test_a_client_used_at_import_serves_preloaded_asgi_workers(
    service: LocalService, tmp_path: Path
) -> None:
    """Workers forked from a master that streams have streams and answers of their own."""
    kind = SERVERS["gunicorn asgi preload"]
    with Server(kind.command, service, tmp_path, USE_AT_IMPORT="start") as server:
        pids = serving_processes(server, kind.processes)
        assert_nobody_gets_anothers_answer(server)
        assert_one_stream_each(service, pids, others=1)
        assert_changes_arrive_everywhere(server, service, pids)
        assert_ends_quickly(server, service, signal.SIGTERM)
