"""Redis, or Valkey, as a process of its own: started, killed, stopped and continued.

It listens on a free port of the loopback interface, keeps nothing on a disk, and ends with the
test, whatever happens.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any, Self

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.ports import free_port
from tests.servers.harness import clean_environment, eventually, kill, spawn

__all__ = ["PROGRAM", "RedisServer", "needs_redis"]

#: The server's program: that which `REDIS_SERVER` names, or the first that is installed.
PROGRAM = (
    os.environ.get("REDIS_SERVER")
    or shutil.which("redis-server")
    or shutil.which("valkey-server")
    or ""
)

NO_PROGRAM = "there is no redis-server; Debian has it in the package of that name"
needs_redis = pytest.mark.skipif(not PROGRAM, reason=NO_PROGRAM)


class RedisServer:
    """One server.

    Args:
        folder: Where it writes its output.
        options: Further options, as its configuration file spells them.
        tls: The file with the key and the certificate, where it is to speak TLS only.
        configuration: A file that it may rewrite.
        mode: What it is instead of a plain server.
    """

    def __init__(
        self,
        folder: Path,
        *options: str,
        tls: Path | None = None,
        configuration: Path | None = None,
        mode: str = "",
    ) -> None:
        self.port = free_port()
        self._folder = folder
        self._output = folder / f"redis-{self.port}.txt"
        self._tls = tls
        listen = ["--port", str(self.port)]
        if tls is not None:
            listen = ["--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no"]
            for name in ("cert", "key", "ca-cert"):
                listen += [f"--tls-{name}-file", str(tls)]
        self._command = [
            *(PROGRAM, *([str(configuration)] if configuration else [])),
            *("--bind", "127.0.0.1", *listen, "--dir", str(folder)),
            *(["--save", "", "--appendonly", "no"] if not mode else [mode]),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its address."""
        if self._tls is not None:
            return f"rediss://127.0.0.1:{self.port}/0?ssl_ca_certs={self._tls}"
        return f"redis://127.0.0.1:{self.port}/0"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def client(self, **more: Any) -> redis.Redis:
        """A client for the test itself, which waits for long."""
        options = {"socket_timeout": 10, "retry": Retry(NoBackoff(), 0), **more}
        return redis.Redis.from_url(self.url, **options)

    def start(self) -> None:
        """Start it, with nothing in it, and wait until it answers."""
        self._process = spawn(
            self._command, self._output, environment=clean_environment(None), folder=self._folder
        )
        try:
            eventually(self._answers, "Redis answers")
        except BaseException:
            self.kill()
            raise

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._output.read_text(errors="replace")
        try:
            with self.client() as known:
                return bool(known.ping())
        except redis.AuthenticationError:
            return True
        except (redis.ConnectionError, redis.TimeoutError):
            return False

    def kill(self) -> None:
        """End it at once, if it runs."""
        process, self._process = self._process, None
        if process is not None:
            kill(process)

    def hang(self) -> None:
        """Let it accept connections, and answer nothing."""
        self._signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """End `hang`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    def calls(self, command: str) -> int:
        """How many times it has carried out a command, for clients and scripts."""
        with self.client() as known:
            found: Any = known.info("commandstats")
        return int(found.get(f"cmdstat_{command}", {}).get("calls", 0))

    def dump(self) -> dict[bytes, list[bytes]]:
        """Every key, and all that is kept under it."""
        with self.client() as known:
            kept: dict[bytes, list[bytes]] = {}
            for key in known.scan_iter(count=1000):
                if known.type(key) == b"hash":
                    fields: Any = known.hgetall(key)
                    kept[key] = [part for field in fields.items() for part in field]
                else:
                    value: Any = known.get(key)
                    kept[key] = [value or b""]
            return kept
