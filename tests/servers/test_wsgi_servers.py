"""gunicorn and uWSGI: workers made by forking, with the site imported before or after that."""

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
from tests.servers.harness import BIN, Server, opened_streams

pytestmark = pytest.mark.timeout(90)

FLASK = "tests.servers.apps.flask_site:app"


def gunicorn(kind: str, *options: str, site: str = FLASK) -> list[str]:
    """The command for two workers of a kind."""
    return [
        *("gunicorn", "--no-control-socket", "--bind", "127.0.0.1:{port}"),
        # Its gthread workers get Ctrl-C twice, from the terminal and from their master, and may
        # wait for themselves then; the master ends them when this time has passed.
        *("--workers", "2", "--worker-class", kind, "--graceful-timeout", "3", *options, site),
    ]


def uwsgi(*options: str) -> list[str]:
    """The command for two processes."""
    return [
        *("uwsgi", "--http-socket", "127.0.0.1:{port}", "--processes", "2", "--master"),
        *("--need-app", "--die-on-term", "--disable-logging", "-H", str(BIN.parent)),
        *("--reload-mercy", "3", "--worker-reload-mercy", "3"),
        *("--module", FLASK, *options),
    ]


needs_uwsgi = pytest.mark.skipif(
    not (BIN / "uwsgi").exists(), reason="uWSGI is not installed: .ci/run builds it for one Python"
)

SERVERS = {
    "gunicorn sync": gunicorn("sync"),
    "gunicorn sync preload": gunicorn("sync", "--preload"),
    "gunicorn gthread": gunicorn("gthread", "--threads", "4"),
    "gunicorn gthread preload": gunicorn("gthread", "--threads", "4", "--preload"),
    "gunicorn gevent": gunicorn("gevent"),
    "gunicorn gevent preload": gunicorn("gevent", "--preload"),
    "uwsgi": uwsgi(),
    "uwsgi threads": uwsgi("--enable-threads", "--threads", "2"),
    "uwsgi lazy-apps": uwsgi("--lazy-apps", "--enable-threads"),
    "uwsgi hooks": uwsgi("--py-call-uwsgi-fork-hooks", "--enable-threads"),
}

UWSGI_AS_ROOT = "running uWSGI as root"
# gunicorn's workers let Ctrl-C end whatever they are doing, with a traceback of that; gevent's
# may be doing what Python 3.13 does with threads at its end.
ON_CTRL_C = "Traceback|Exception ignored on threading shutdown"


def every(*names: str) -> pytest.MarkDecorator:
    """One test for each of these servers."""
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=[needs_uwsgi] if name.startswith("uwsgi") else [])
            for name in names
        ],
    )


@every(*SERVERS)
def test_each_worker_streams_once_and_ends_on_sigterm(
    name: str, service: LocalService, tmp_path: Path, say: Callable[[str], None]
) -> None:
    """Each worker has one stream from its first flag on, the master none; SIGTERM ends all,
    and the last events arrive."""
    with Server(SERVERS[name], service, tmp_path) as server:
        assert opened_streams(service) == (0, 0), "something started before a flag was read"
        pids = serving_processes(server, 2)
        assert server.process.pid not in pids
        assert_one_stream_each(service, pids)
        assert_nobody_gets_anothers_answer(server)
        assert_changes_arrive_everywhere(server, service, pids)
        assert_one_stream_each(service, pids)
        seconds = assert_ends_quickly(server, service, signal.SIGTERM, delivers=True)
    assert_quiet(server, UWSGI_AS_ROOT)
    say(f"{name}: SIGTERM ends it in {seconds:.2f} s")


@every(*SERVERS)
def test_ctrl_c_ends_it(
    name: str, service: LocalService, tmp_path: Path, say: Callable[[str], None]
) -> None:
    """Ctrl-C ends master and workers while they stream, without a word of ours."""
    with Server(SERVERS[name], service, tmp_path) as server:
        server.ask("user-1")
        # These let exit hooks run inside whatever the signal has interrupted, if at all.
        delivers = not name.startswith(("uwsgi", "gunicorn gevent", "gunicorn gthread"))
        seconds = assert_ends_quickly(server, service, signal.SIGINT, delivers=delivers)
    assert_quiet(server, UWSGI_AS_ROOT, ON_CTRL_C)
    say(f"{name}: Ctrl-C ends it in {seconds:.2f} s")


@every(
    "gunicorn sync preload", "gunicorn gthread preload", "gunicorn gevent preload", "uwsgi hooks"
)
def test_workers_leave_alone_what_their_master_has_opened(
    name: str, service: LocalService, tmp_path: Path
) -> None:
    """A client that its master has started serves each worker's users on connections of its own."""
    with Server(SERVERS[name], service, tmp_path, USE_AT_IMPORT="start") as server:
        assert service.wait_for_streams(1, 10), "the master does not stream"
        masters = {request.client_port for request in service.requests}
        pids = serving_processes(server, 2)
        assert_nobody_gets_anothers_answer(server)
        assert_one_stream_each(service, pids, others=1)
        assert_changes_arrive_everywhere(server, service, pids)
        workers = {request.client_port for request in service.requests if b"user-" in request.body}
        assert not workers & masters, "a worker spoke on its master's connection"
        assert_one_stream_each(service, pids, others=1)
        assert_ends_quickly(server, service, signal.SIGTERM)


@every("gunicorn gthread preload", "gunicorn gevent preload", "uwsgi", "uwsgi threads")
def test_workers_share_no_connection_that_their_master_has_used(
    name: str, service: LocalService, tmp_path: Path
) -> None:
    """After evaluations in the master, workers use connections of their own, hooks or not."""
    with Server(SERVERS[name], service, tmp_path, USE_AT_IMPORT="evaluate") as server:
        masters = {request.client_port for request in service.requests}
        assert len(masters) == 1
        pids = serving_processes(server, 2)
        assert_nobody_gets_anothers_answer(server)
        assert_one_stream_each(service, pids)
        workers = {request.client_port for request in service.requests if b"user-" in request.body}
        assert not workers & masters, "a worker spoke on its master's connection"
