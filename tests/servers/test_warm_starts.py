"""Workers that are replaced while the service is down: the pages keep their values."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from shipsilently_local import LocalService
from tests.servers.checks import (
    assert_changes_arrive_everywhere,
    assert_ends_quickly,
    serving_processes,
)
from tests.servers.harness import Answer, Server, eventually, user_names
from tests.stores.redis_server import RedisServer, needs_redis

pytestmark = pytest.mark.timeout(120)

WORKERS = 4
USERS = user_names(12)
#: Seconds for any page, on a machine that has other work too.
HELD_UP = 3.0


def gunicorn(*options: str) -> list[str]:
    """The command for four workers."""
    return [
        *("gunicorn", "--no-control-socket", "--bind", "127.0.0.1:{port}", "--workers"),
        *(str(WORKERS), *options, "tests.servers.apps.warm_site:app"),
    ]


def warm(server: Server) -> set[int]:
    """Let every worker serve every user; the workers."""
    pids = serving_processes(server, WORKERS)
    served: set[tuple[int, str]] = set()

    def all_of_them() -> bool:
        answers = server.ask_all(USERS, at_once=8, hold="0.002")
        served.update((answer.pid, answer.who) for answer in answers)
        return len(served) == WORKERS * len(USERS)

    eventually(all_of_them, "every worker serves every user", timeout=30)
    return pids


def pages(server: Server) -> list[Answer]:
    """A page for each user, none held up for long."""

    def page(user: str) -> Answer:
        begin = time.monotonic()
        answer = server.ask(user, hold="0.002")
        assert time.monotonic() - begin < HELD_UP
        return answer

    # As many at once as there are workers, so that none waits for another.
    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(page, USERS))


def assert_values_stay(server: Server) -> set[int]:
    """Every page shows what it showed before the service was gone; the workers that say so."""
    answers = pages(server)
    assert [(answer.who, answer.version) for answer in answers] == [(user, 1) for user in USERS]
    return {answer.pid for answer in answers}


def end(worker: int) -> None:
    """Let one worker end, as a deploy does, and wait until it has."""
    os.kill(worker, signal.SIGTERM)

    def gone() -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, 0)
            return False
        return True

    eventually(gone, f"worker {worker} ends")


def replace_all(server: Server, pids: set[int]) -> set[int]:
    """Replace one worker after the other while pages are asked for; the new workers."""
    seen: set[int] = set()
    for pid in sorted(pids):
        end(pid)
        seen |= assert_values_stay(server)

    def replaced() -> bool:
        seen.update(assert_values_stay(server))
        return len(seen - pids) == WORKERS

    eventually(replaced, "all workers are new")
    return seen - pids


def assert_the_service_is_followed_again(
    server: Server, service: LocalService, pids: set[int]
) -> None:
    """Once the service is back every worker streams, and a change arrives in each."""
    assert service.wait_for_streams(WORKERS, 20), "not all workers stream again"
    asking: set[int] = set()

    def all_ask() -> bool:
        with ThreadPoolExecutor(WORKERS) as pool:
            found = pool.map(lambda user: server.get("/store", user=user, hold="0.01"), USERS)
            asking.update(page["pid"] for page in found if page["gate"] is None)
        return asking >= pids

    eventually(all_ask, "all workers ask the service again")
    assert_changes_arrive_everywhere(server, service, pids)
    answers = server.ask_all(USERS, at_once=4)
    assert [(answer.who, answer.version) for answer in answers] == [(user, 2) for user in USERS]


@needs_redis
def test_workers_are_replaced_while_the_service_and_redis_are_down(
    service: LocalService, tmp_path: Path
) -> None:
    """With a store in Redis every page keeps its values when the service is down and all workers
    are new; without Redis too pages are served in time; with both back values follow."""
    with (
        RedisServer(tmp_path) as redis,
        # The store is made in the master, and used in the workers that it forks.
        Server(gunicorn("--preload"), service, tmp_path, SITE_STORE=redis.url) as server,
    ):
        pids = serving_processes(server, WORKERS)
        assert [answer.who for answer in server.ask_all(USERS)] == USERS
        kept = b":context:"
        # The users, and the client's own context.
        eventually(lambda: sum(kept in key for key in redis.dump()) > len(USERS), "all are kept")
        service.stop()
        pids = replace_all(server, pids)
        found = server.get("/store", user=USERS[0])
        assert (found["source"], found["error"]) == ("cache", None)

        assert warm(server) == pids
        redis.kill()
        assert_values_stay(server)
        # One that has neither the service nor Redis serves nobody's values, but serves.
        end(min(pids))
        for _ in range(3):
            assert len(pages(server)) == len(USERS)
        pids = serving_processes(server, WORKERS)

        redis.start()
        service.start()
        assert_the_service_is_followed_again(server, service, pids)
        eventually(lambda: any(kept in key for key in redis.dump()), "Redis is used again")
        assert_ends_quickly(server, service, signal.SIGTERM)


def test_workers_are_replaced_while_the_service_is_down(
    service: LocalService, tmp_path: Path
) -> None:
    """With a store in a file every page keeps its values when the service is down and all workers
    are new, and after a cold start of all of it; with the service back values follow."""
    file = tmp_path / "flags.snapshot"
    with Server(gunicorn(), service, tmp_path, SITE_STORE=str(file)) as server:
        pids = warm(server)
        service.stop()
        replace_all(server, pids)
        server.stop(signal.SIGTERM)
    assert file.stat().st_mode & 0o777 == 0o600
    with Server(gunicorn(), service, tmp_path, SITE_STORE=str(file)) as server:
        assert_values_stay(server)
        found = server.get("/store", user=USERS[0])
        assert (found["source"], found["error"]) == ("cache", None)
        assert found["age"] > 0
        pids = serving_processes(server, WORKERS)
        service.start()
        assert_the_service_is_followed_again(server, service, pids)
        assert_ends_quickly(server, service, signal.SIGTERM)
