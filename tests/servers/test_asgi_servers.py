"""uvicorn, hypercorn, daphne and gunicorn's ASGI worker: lifespans, or none, and event loops."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

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

#: The command, how many processes serve, and whether the server runs lifespans.
SERVERS: dict[str, tuple[list[str], int, bool]] = {
    "uvicorn": ([*UVICORN, FASTAPI], 1, True),
    "uvicorn 2 workers": ([*UVICORN, "--workers", "2", FASTAPI], 2, True),
    "uvicorn Django": ([*UVICORN, "--lifespan", "off", DJANGO], 1, False),
    "hypercorn": ([*HYPERCORN, FASTAPI], 2, True),
    "daphne FastAPI": ([*DAPHNE, FASTAPI], 1, False),
    "daphne Django": ([*DAPHNE, DJANGO], 1, False),
    "gunicorn asgi": ([*GUNICORN, "--worker-class", "asgi", FASTAPI], 2, True),
    "gunicorn asgi preload": ([*GUNICORN, "--preload", "--worker-class", "asgi", FASTAPI], 2, True),
}

# It tells people to install the lifespan, which daphne never runs.
TOLD = "no lifespan of the app has run"


@pytest.mark.parametrize("name", SERVERS)
def test_each_process_streams_once_and_ends_on_sigterm(
    name: str, service: LocalService, tmp_path: Path, say: Callable[[str], None]
) -> None:
    """Each process streams once, from its lifespan or else its first flag on; SIGTERM ends all."""
    command, count, has_lifespan = SERVERS[name]
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
        seconds = assert_ends_quickly(server, service, signal.SIGTERM)
    assert_quiet(server, TOLD)
    say(f"{name}: SIGTERM ends it in {seconds:.2f} s")


@pytest.mark.parametrize("name", SERVERS)
def test_ctrl_c_ends_it(
    name: str, service: LocalService, tmp_path: Path, say: Callable[[str], None]
) -> None:
    """Ctrl-C ends every process while it streams, without a word of ours."""
    command, _, _ = SERVERS[name]
    with Server(command, service, tmp_path) as server:
        server.ask("user-1")
        seconds = assert_ends_quickly(server, service, signal.SIGINT)
    assert_quiet(server, TOLD)
    say(f"{name}: Ctrl-C ends it in {seconds:.2f} s")


def test_a_client_used_at_import_serves_preloaded_asgi_workers(
    service: LocalService, tmp_path: Path
) -> None:
    """Workers forked from a master that streams have streams and answers of their own."""
    command, count, _ = SERVERS["gunicorn asgi preload"]
    with Server(command, service, tmp_path, USE_AT_IMPORT="start") as server:
        pids = serving_processes(server, count)
        assert_nobody_gets_anothers_answer(server)
        assert_one_stream_each(service, pids, others=1)
        assert_changes_arrive_everywhere(server, service, pids)
        assert_ends_quickly(server, service, signal.SIGTERM)
