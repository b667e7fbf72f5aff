"""Memory of a cached user with 200 flags, and a full garbage collection with all of them."""

from __future__ import annotations

import gc
import time
import tracemalloc
from typing import Any

import msgspec

from .decode import body_for
from .outcome import Figure, Goal, Outcome, Settings
from .timing import median

USERS = 10_000
#: As many kinds of users as there are where they fall into groups.
GROUPS = 20


def run(settings: Settings) -> Outcome:
    """Measure."""
    users = 100 if settings.quick else USERS
    rows: list[Figure] = []
    goals: list[Goal] = []
    for what, different, limit in (
        ("users in 20 groups", GROUPS, 400.0),
        ("each differs in 10 flags", users, 2_500.0),
    ):
        size, pause = held(users, different)
        rows.append(Figure(f"shipsilently, {what}", size, "bytes", 1.0, f"a user, of {users:,}"))
        rows.append(
            Figure(f"shipsilently, {what}: full collection", pause * 1e3, "ms", None, "longer")
        )
        goals.append(Goal(f"{what}: ≤ {limit:,.0f} bytes a user", size, limit))
        if different == users:
            goals.append(Goal("full collection ≤ 5 ms longer", pause * 1e3, 5.0))
    few = users // 10
    size, pause = naive(few)
    rows.append(Figure("parsed dictionaries", size, "bytes", None, f"a user, of {few:,}"))
    rows.append(
        Figure(
            "parsed dictionaries: full collection",
            pause * 1e3 * users / few,
            "ms",
            None,
            f"reckoned from {few:,} users",
        )
    )
    return Outcome(rows, goals)


class _Answers:
    """A transport that answers each request with the next body."""

    def __init__(self, different: int) -> None:
        self._different = different
        self._asked = 0

    def send(self, request: Any) -> Any:
        """Answer."""
        from shipsilently_core._wire import Reply

        self._asked += 1
        return Reply(200, body_for(self._asked % self._different))

    def close(self) -> None:
        """Nothing is open."""


def held(users: int, different: int) -> tuple[float, float]:
    """Bytes of one more user, and seconds that a full collection takes longer."""
    from shipsilently_core import ShipSilentlyClient

    transport: Any = _Answers(different)
    client = ShipSilentlyClient(
        api_key="bench",
        transport=transport,
        background=False,
        max_age=1e9,
        max_contexts=users + 10,
    )
    leave_out()
    before = collection()
    tracemalloc.start()
    try:
        # What is shared by all, and the answers held decoded, are there after the first half.
        sizes = []
        for number in range(users):
            client.evaluate_all({"userId": f"user-{number}"})
            if number + 1 in (users // 2, users):
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    longer = collection() - before
    assert len(client.get_all({"userId": "user-0"})) == 200
    client.close()
    return (sizes[1] - sizes[0]) / (users - users // 2), longer


def naive(users: int) -> tuple[float, float]:
    """The same for users whose answers are kept as they were parsed."""
    leave_out()
    before = collection()
    tracemalloc.start()
    kept = {}
    for number in range(users):
        kept[f"user-{number}"] = msgspec.json.decode(body_for(number))
    size = tracemalloc.get_traced_memory()[0] / users
    tracemalloc.stop()
    return size, collection() - before


def leave_out() -> None:
    """Let no collection from now on look at what is there already."""
    gc.collect()
    gc.freeze()


def collection() -> float:
    """Seconds of a full garbage collection."""
    gc.collect()
    took = []
    for _ in range(7):
        began = time.perf_counter()
        gc.collect()
        took.append(time.perf_counter() - began)
    return median(took)
