"""Contexts with long attributes: held in little memory, and as much their own as any other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shipsilently_core import Context, ShipSilentlyClient, Source
from shipsilently_core._wire import BATCH
from tests.core.support import Setup, setup

LONG = "x" * 50_000


def who(name: str) -> dict[str, Any]:
    """Contexts that differ in their last characters alone."""
    return {"agent": f"{LONG}{name}"}


def named(context: dict[str, Any]) -> dict[str, Any]:
    """Flags that tell whose they are."""
    return {"whose": context.get("agent", "nobody")[-3:]}


READS: dict[str, Callable[[ShipSilentlyClient, dict[str, Any]], Any]] = {
    "flags": lambda c, context: c.flags(context).get("whose", ""),
    "aflags": lambda c, context: asyncio.run(c.flags(context).aget("whose", "")),
    "evaluate": lambda c, context: c.evaluate("whose", context, ""),
    "evaluate_all": lambda c, context: c.evaluate_all(context)["whose"].value,
}


def keys_of(s: Setup) -> list[bytes]:
    return [key for key, _ in s.client.evaluator.cache.recent(1_000)]


@pytest.mark.parametrize(
    ("length", "held"),
    [(1_024 - len('{"a":""}'), 1_024), (1_025 - len('{"a":""}'), 7 + 32)],
)
@pytest.mark.parametrize("by", ["mapping", "keyword"])
def test_a_body_of_more_than_1024_bytes_is_held_by_its_digest(
    length: int, held: int, by: str
) -> None:
    """At the bound it is its own key, a byte further its SHA-256 is, however it is made."""
    text = "x" * length
    context = Context({"a": text}) if by == "mapping" else Context(a=text)
    assert len(context.key) == held
    assert (context.key == context.body) is (held == 1_024)
    assert json.loads(context.body) == {"a": text}
    assert Context({"a": text}).key == context.key


@pytest.mark.parametrize("door", READS)
def test_each_has_its_own_values(door: str) -> None:
    """Those that differ at their very ends are never taken for each other."""
    s = setup(named)
    for _ in range(2):
        for name in ("ada", "eve"):
            assert READS[door](s.client, who(name)) == name


def test_the_service_is_sent_all_of_it_and_asked_once() -> None:
    """What is asked is whole, and the answer is found again."""
    s = setup(named)
    for _ in range(3):
        assert s.client.flags(who("ada")).get("whose", "") == "ada"
    (request,) = [one for one in s.service.requests if one.path == BATCH]
    assert json.loads(request.body) == {"context": who("ada")}


def test_what_is_remembered_does_not_grow_with_them() -> None:
    """Of fifty contexts with 2.5 MB of attributes, 2 KB are held beside their values."""
    s = setup(named)
    for number in range(50):
        s.client.flags(who(f"{number:03}")).load()
    assert len(keys_of(s)) == 50
    assert sum(map(len, keys_of(s))) < 2_000


@pytest.mark.parametrize("door", READS)
def test_last_known_good_values_are_theirs_too(door: str) -> None:
    """While the service fails, each is served what it was served before."""
    s = setup(named, polling_interval=30.0)
    for name in ("ada", "eve"):
        s.client.evaluate_all(who(name))
    s.service.fail(503)
    s.clock.advance(60.0)
    for name in ("ada", "eve"):
        assert READS[door](s.client, who(name)) == name


def test_the_next_process_finds_them_in_the_store(tmp_path: Path) -> None:
    """A file keeps them under the same name, so they are served from the first request on."""
    path = tmp_path / "flags"
    s = setup(named, store=path)
    for name in ("ada", "eve"):
        s.client.evaluate_all(who(name))
    s.client.close()
    assert len(path.read_bytes()) < 10_000
    later = setup(named, store=path)
    later.service.fail(503)
    for name in ("ada", "eve"):
        result = later.client.flags(who(name)).detail("whose", "")
        assert (result.value, result.source) == (name, Source.CACHE)
    later.client.close()
