"""Many users at once, on a good day and on a bad one: nobody sees another's value."""

import asyncio
import random
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client
from shipsilently_django import FlagsRequest, flag_enabled

from shipsilently_core.testing import ScriptedService

Serve = Callable[..., None]
Configure = Callable[..., None]
USERS = [f"u{number}" for number in range(12)]


def hook(request: HttpRequest) -> dict[str, Any]:
    """Whoever the request says it is of; some are anonymous, with another attribute."""
    return {key: value for key in ("userId", "country") if (value := request.headers.get(key))}


def flags_for(context: dict[str, Any]) -> dict[str, Any]:
    """Flags that tell whose they are."""
    return {"whose": str(sorted(context.items())), "odd": context.get("userId", "0")[-1] in "13579"}


def right(headers: dict[str, str]) -> str:
    """What the page must say to somebody."""
    flags = flags_for(headers)
    return f"{flags['whose']} {flags['odd']}"


def somebody(rng: random.Random) -> dict[str, str]:
    """A user, or a visitor from some country."""
    if rng.random() < 0.3:
        return {"country": rng.choice(["is", "no", "fi"])}
    return {"userId": rng.choice(USERS)}


def plain(request: FlagsRequest) -> HttpResponse:
    """Say whose flags these are."""
    return HttpResponse(f"{request.flags.get('whose', '')} {flag_enabled('odd')}")


async def awaited(request: FlagsRequest) -> HttpResponse:
    """Say whose flags these are, after a pause in which others come."""
    whose = await request.flags.aget("whose", "")
    await asyncio.sleep(0)
    return HttpResponse(f"{whose} {flag_enabled('odd')}")


@pytest.fixture(autouse=True)
def _site(configure: Configure, service: ScriptedService) -> None:
    service.set(flags_for)
    configure(CONTEXT=hook)


def visit_in_threads() -> list[tuple[str, str]]:
    """Every wrong answer of 32 threads with 15 visits each."""
    wrong = []

    def visits(seed: int) -> None:
        rng, client = random.Random(seed), Client()
        for _ in range(15):
            headers = somebody(rng)
            answer = client.get("/", headers=headers).content.decode()
            if answer != right(headers):
                wrong.append((right(headers), answer))

    threads = [threading.Thread(target=visits, args=(seed,)) for seed in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


async def visit_in_tasks() -> list[tuple[str, str]]:
    """Every wrong answer of 200 tasks."""
    rng = random.Random(7)

    async def visit(headers: dict[str, str]) -> tuple[str, str]:
        response = await AsyncClient().get("/", headers=headers)
        return right(headers), response.content.decode()

    answers = await asyncio.gather(*(visit(somebody(rng)) for _ in range(200)))
    return [(wanted, answer) for wanted, answer in answers if wanted != answer]


def meet_everybody() -> None:
    """Let the client know every user and visitor there is."""
    client = Client()
    for user in USERS:
        client.get("/", headers={"userId": user})
    for country in ("is", "no", "fi"):
        client.get("/", headers={"country": country})


@pytest.mark.parametrize("view", [plain, awaited], ids=["sync", "async"])
def test_threads_of_many_users_do_not_mix(
    serve: Serve, service: ScriptedService, clock: Any, view: Any
) -> None:
    """32 threads get their own user's values, also the last known ones when the service is down."""
    serve(view)
    meet_everybody()
    assert visit_in_threads() == []
    clock.advance(1_000)
    service.fail(503)
    assert visit_in_threads() == []


def test_tasks_of_many_users_do_not_mix(serve: Serve, service: ScriptedService, clock: Any) -> None:
    """So do 200 tasks in one event loop."""
    serve(awaited)
    meet_everybody()
    assert asyncio.run(visit_in_tasks()) == []
    clock.advance(1_000)
    service.fail(503)
    assert asyncio.run(visit_in_tasks()) == []
