"""Threads and tasks that read flags at the same time, all the time."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Mapping
from typing import Any, Protocol

from .ledger import Ledger, User
from .service import FLAG

__all__ = ["TASKS", "THREADS", "Client", "Load"]

THREADS, TASKS, SHARED = 8, 24, 3

#: The share of reads for a user whom several read for.
_TOGETHER = 0.3


class Flags(Protocol):
    """The flags of one request."""

    def get(self, key: str, default: str) -> str:
        """A value."""
        ...

    async def aget(self, key: str, default: str) -> str:
        """A value, in a task."""
        ...


class Client(Protocol):
    """What is read with."""

    def flags(self, context: Mapping[str, Any]) -> Flags:
        """The flags of one request."""
        ...

    def evaluate(self, flag_key: str, context: Mapping[str, Any], default: str) -> str:
        """A value, always asked for."""
        ...

    async def aevaluate(self, flag_key: str, context: Mapping[str, Any], default: str) -> str:
        """A value, always asked for, in a task."""
        ...


class Load:
    """Readers in threads and in tasks, each for a user of its own and for shared ones.

    Args:
        client: What is read with.
        ledger: Takes in each read.
        threads: How many threads.
        tasks: How many tasks.
    """

    def __init__(
        self, client: Client, ledger: Ledger, *, threads: int = THREADS, tasks: int = TASKS
    ) -> None:
        self._client = client
        self._ledger = ledger
        self._stop = threading.Event()
        self.shared = [User(f"shared-{number}") for number in range(SHARED)]
        self.own = [User(f"thread-{number}") for number in range(threads)]
        self._task_users = [User(f"task-{number}") for number in range(tasks)]
        self._readers = [threading.Thread(target=self._read, args=(user,)) for user in self.own]
        self._readers.append(threading.Thread(target=lambda: asyncio.run(self._read_in_tasks())))
        self.own += self._task_users
        for reader in self._readers:
            # One that hangs is a finding, and must not keep the process from its end.
            reader.daemon = True

    def start(self) -> None:
        """Begin to read."""
        for reader in self._readers:
            reader.start()

    def stop(self, timeout: float) -> int:
        """End all readers; how many do not end."""
        self._stop.set()
        for reader in self._readers:
            reader.join(timeout)
        return sum(reader.is_alive() for reader in self._readers)

    def oldest(self) -> int:
        """The version that every reader's own user has got at least."""
        return min(user.newest for user in self.own)

    def typical(self) -> int:
        """The version that half of the readers' own users have got at least."""
        return sorted(user.newest for user in self.own)[len(self.own) // 2]

    def _choose(self, own: User, rng: random.Random) -> tuple[User, bool]:
        # Of two questions at once, nobody knows which one the service has looked at first. Requests
        # for one user share what they ask; `evaluate` asks by itself, so it is for one reader.
        if rng.random() < _TOGETHER:
            return rng.choice(self.shared), False
        return own, rng.random() < 0.2

    def _read(self, own: User) -> None:
        rng = random.Random(own.name)
        while not self._stop.wait(rng.uniform(0.005, 0.05)):
            user, always = self._choose(own, rng)
            context = {"userId": user.name}
            read = self._ledger.begin(user)
            try:
                if always:
                    value = self._client.evaluate(FLAG, context, "")
                else:
                    value = self._client.flags(context).get(FLAG, "")
            except BaseException as error:
                self._ledger.end(read, None, error)
            else:
                self._ledger.end(read, value)

    async def _aread(self, own: User) -> None:
        rng = random.Random(own.name)
        while not self._stop.is_set():
            await asyncio.sleep(rng.uniform(0.03, 0.2))
            user, always = self._choose(own, rng)
            context = {"userId": user.name}
            read = self._ledger.begin(user)
            try:
                if always:
                    value = await self._client.aevaluate(FLAG, context, "")
                else:
                    value = await self._client.flags(context).aget(FLAG, "")
            except Exception as error:
                self._ledger.end(read, None, error)
            else:
                self._ledger.end(read, value)

    async def _read_in_tasks(self) -> None:
        async with asyncio.TaskGroup() as group:
            for user in self._task_users:
                group.create_task(self._aread(user))
