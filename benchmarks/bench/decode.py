"""A batch of 200 flags, from the bytes of the answer to what is kept of it."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from typing import Any

import msgspec

from .outcome import Figure, Goal, Outcome, Settings, missing_figures
from .timing import Work, median, ratio, take_turns

__all__ = ["FLAGS", "body_for", "row_of"]

FLAGS = 200
#: How many of them differ between two users.
DIFFERENT = 10
#: More answers than are held decoded, so that each has been forgotten when it comes again.
BODIES = 400


def row_of(number: int, user: int) -> dict[str, Any]:
    """One flag as the service sends it; some of them differ from user to user."""
    key = f"some-feature-{number:03d}"
    if number < DIFFERENT:
        return {
            "flagKey": key,
            "value": f"variant-{user}",
            "reason": "rule_match",
            "ruleId": f"rule-{number}",
        }
    value: Any = number % 2 == 0 if number % 4 else f"variant-{number % 7}"
    return {"flagKey": key, "value": value, "reason": "default", "ruleId": None}


def body_for(user: int) -> bytes:
    """The answer to a batch for one user."""
    rows = (row_of(number, user) for number in range(FLAGS))
    return msgspec.json.encode({"flags": {row["flagKey"]: row for row in rows}})


class _Row(msgspec.Struct, frozen=True, gc=False):
    value: Any
    reason: str
    ruleId: str | None = None
    flagKey: str | None = None


class _Batch(msgspec.Struct):
    flags: dict[str, _Row]


def run(settings: Settings) -> Outcome:
    """Measure."""
    from shipsilently_core import Context, ShipSilentlyClient
    from shipsilently_core._wire import Reply
    from shipsilently_core.testing import ScriptedService

    bodies = [body_for(user) for user in range(BODIES)]
    client = ShipSilentlyClient(
        api_key="bench", transport=ScriptedService(), background=False, max_age=1e9
    )
    evaluator = client.evaluator
    context = Context(user_id="user-1")

    def ours(body: bytes) -> object:
        # All that follows an answer: its flags are what the next request of this user sees.
        return evaluator.conclude(evaluator.prepare(context), Reply(200, body))

    decoders: dict[str, Callable[[bytes], object]] = {
        "shipsilently, unseen body": ours,
        "msgspec, frozen structs": msgspec.json.Decoder(_Batch).decode,
        "msgspec, untyped": msgspec.json.Decoder().decode,
        "json": json.loads,
    }
    missing: dict[str, str] = {}
    try:
        decoders["orjson"] = importlib.import_module("orjson").loads
    except ImportError:
        missing["orjson"] = "is not installed"
    works = {name: unseen(decode, bodies) for name, decode in decoders.items()}
    works["shipsilently, body seen before"] = seen(ours, bodies[0])
    figures = take_turns(works, settings, most=5_000)
    new, again = figures["shipsilently, unseen body"], figures["shipsilently, body seen before"]
    others = {name: took for name, took in figures.items() if not name.startswith("shipsilently")}
    fastest = min(others, key=lambda name: median(others[name]))
    rows = [
        Figure(name, median(took) * 1e6, "µs", ratio(new, took), f"{len(bodies[0]):,} bytes")
        for name, took in figures.items()
    ]
    return Outcome(
        [*rows, *missing_figures(missing, "µs")],
        [
            Goal(
                "unseen body ≤ 1.2 × the fastest decoder",
                ratio(new, others[fastest]),
                1.2,
                note=f"{fastest} is the fastest",
            ),
            Goal("body seen before ≤ 1/3 of a decode", ratio(again, others[fastest]), 1 / 3),
        ],
    )


def unseen(decode: Callable[[bytes], object], bodies: list[bytes]) -> Work:
    """Decode one body after the other, each with bytes of its own as a network gives them."""
    import time

    position = 0

    def work(count: int) -> float:
        nonlocal position
        fresh = [
            bytes(memoryview(bodies[number % len(bodies)]))
            for number in range(position, position + min(count, len(bodies)))
        ]
        position += len(fresh)
        began = time.thread_time()
        for body in fresh:
            decode(body)
        return (time.thread_time() - began) * count / len(fresh)

    return work


def seen(decode: Callable[[bytes], object], body: bytes) -> Work:
    """Decode copies of one body; a copy has to be hashed anew."""
    decode(body)
    return unseen(decode, [body] * BODIES)
