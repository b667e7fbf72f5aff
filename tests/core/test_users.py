"""One user's value is never served to another, on good days and bad ones, at any load."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from shipsilently_core import EvaluationResult, Reason, ShipSilentlyClient, Source
from shipsilently_local import LocalService
from tests.core.support import KEY
from tests.core.wire_server import Answer, Received, WireServer

THREADS = 32
TASKS = 200


def people() -> list[dict[str, Any]]:
    """Known users and anonymous ones with other attributes."""
    known = [{"userId": f"u{number}", "plan": "pro"} for number in range(40)]
    anonymous = [{"country": country, "age": age} for country in "abcde" for age in range(6)]
    return [*known, *anonymous, {}]


def echo(received: Received) -> Answer:
    """Every flag's value is the context itself, made by a personal rule."""
    flags = {
        key: {
            "flagKey": key,
            "value": {"key": KEY[-4:], "who": received.context},
            "reason": "rollout",
        }
        for key in ("a", "b")
    }
    if received.path.endswith("/batch"):
        return Answer(body=json.dumps({"flags": flags}).encode())
    return Answer(body=json.dumps(flags[json.loads(received.body)["flagKey"]]).encode())


Read = Callable[[ShipSilentlyClient, dict[str, Any]], Any]


def in_threads(work: Callable[[random.Random], None]) -> None:
    """Run `work` in 32 threads; the first exception is raised here."""
    errors: list[BaseException] = []

    def run(seed: int) -> None:
        try:
            work(random.Random(seed))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def check(result: EvaluationResult, who: dict[str, Any]) -> None:
    assert result.value in ({"key": KEY[-4:], "who": who}, {}), "another user's value"


def ask_in_every_way(client: ShipSilentlyClient, rng: random.Random) -> None:
    for _ in range(6):
        who = rng.choice(people())
        way = rng.randrange(4)
        if way == 0:
            check(client.evaluate_detail("a", who, {}), who)
        elif way == 1:
            for result in client.evaluate_all(who).values():
                check(result, who)
        elif way == 2:
            flags = client.flags(who)
            check(flags.detail("a", {}), who)
            check(flags.detail("b", {}), who)
        else:
            for result in client.get_all(who).values():
                check(result, who)


async def await_in_every_way(client: ShipSilentlyClient, rng: random.Random) -> None:
    who = rng.choice(people())
    way = rng.randrange(3)
    if way == 0:
        check(await client.aevaluate_detail("a", who, {}), who)
    elif way == 1:
        for result in (await client.aevaluate_all(who)).values():
            check(result, who)
    else:
        flags = client.flags(who)
        check(await flags.adetail("a", {}), who)
        check(flags.detail("b", {}), who)


async def in_tasks(client: ShipSilentlyClient) -> None:
    await asyncio.gather(
        *(await_in_every_way(client, random.Random(seed)) for seed in range(TASKS))
    )


def test_users_are_never_mixed_up(server: WireServer) -> None:
    """Threads and tasks at once, then with the service down: each sees its own values only."""
    server.always(echo)
    client = ShipSilentlyClient(
        api_key=KEY, api_url=server.url, timeout=20, max_age=0.05, background=False
    )
    in_threads(lambda rng: ask_in_every_way(client, rng))
    asyncio.run(in_tasks(client))
    for who in people():
        check(client.flags(who).detail("a", {}), who)
        client.evaluate_all(who)
    server.stop()
    in_threads(lambda rng: ask_in_every_way(client, rng))
    asyncio.run(in_tasks(client))
    for who in people():
        result = client.flags(who).detail("a", {})
        assert (result.value, result.source) == ({"key": KEY[-4:], "who": who}, Source.CACHE)
    client.close()


TARGETED = {
    "checkout": {
        "default": "everybody",
        "rules": [
            {
                "name": "chosen",
                "when": [{"attribute": "userId", "operator": "equals", "value": "chosen"}],
                "serve": "chosen only",
            }
        ],
    }
}
CHOSEN, OTHER = {"userId": "chosen"}, {"userId": "other"}
EXPECTED = {"chosen": {"chosen only"}, "other": {"everybody"}, "new": {"everybody", "default"}}


@pytest.fixture
def service() -> Iterator[LocalService]:
    """A service with one flag that one user gets another value of."""
    with LocalService(TARGETED) as running:
        yield running


def client_of(service: LocalService, **settings: Any) -> ShipSilentlyClient:
    return ShipSilentlyClient(
        **{
            "api_key": service.key,
            "api_url": service.url,
            "timeout": 10,
            "max_age": 0,
            "background": False,
            "retry": {"base_delay": 0.01},
            "polling_interval": 0.05,
            **settings,
        }
    )


def verify(result: EvaluationResult | None, user: str) -> None:
    assert result is not None
    assert result.value in EXPECTED[user], f"{user} received {result.value}"


def everybody(client: ShipSilentlyClient, rng: random.Random) -> None:
    for _ in range(8):
        user = rng.choice(["chosen", "other", "new"])
        who = {"userId": user if user != "new" else f"new{rng.random()}"}
        way = rng.randrange(3)
        if way == 0:
            verify(client.evaluate_detail("checkout", who, "default"), user)
        elif way == 1:
            verify(client.flags(who).detail("checkout", "default"), user)
        else:
            found = client.evaluate_all(who).get("checkout")
            if found is not None:
                verify(found, user)


async def everybody_awaited(client: ShipSilentlyClient) -> None:
    async def one(seed: int) -> None:
        rng = random.Random(seed)
        user = rng.choice(["chosen", "other", "new"])
        who = {"userId": user if user != "new" else f"new{seed}"}
        if rng.random() < 0.5:
            verify(await client.aevaluate_detail("checkout", who, "default"), user)
        else:
            verify(await client.flags(who).adetail("checkout", "default"), user)

    await asyncio.gather(*(one(seed) for seed in range(TASKS)))


@pytest.mark.parametrize("baseline", [{"userId": "system"}, CHOSEN], ids=["system", "chosen"])
def test_a_targeted_value_reaches_its_user_alone(
    baseline: dict[str, str], service: LocalService
) -> None:
    """Through an outage and a restart, with 32 threads and 200 tasks, whoever the baseline is."""
    client = client_of(service, baseline_context=baseline)
    client.evaluate_all(baseline)
    client.evaluate_all(OTHER)
    client.evaluate_all(CHOSEN)

    def round_() -> None:
        in_threads(lambda rng: everybody(client, rng))
        asyncio.run(everybody_awaited(client))

    round_()
    service.fault("*", status=500)
    round_()
    result = client.evaluate_detail("checkout", CHOSEN, "default")
    assert (result.value, result.reason) == ("chosen only", Reason.ERROR_FALLBACK)
    service.clear_faults()
    service.stop()
    round_()
    newcomer = client.evaluate_detail("checkout", {"userId": "newcomer"}, "default")
    if baseline == CHOSEN:
        # What a personal rule gave the baseline's own user is nobody else's.
        assert (newcomer.value, newcomer.source) == ("default", Source.DEFAULT)
    else:
        assert (newcomer.value, newcomer.source) == ("everybody", Source.BASELINE)
    service.start()
    round_()
    verify(client.flags(CHOSEN).detail("checkout", "default"), "chosen")
    verify(client.flags(OTHER).detail("checkout", "default"), "other")
    client.close()
