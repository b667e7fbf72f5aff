"""Two apps in one process: each has its own client, flags and users, on good days and bad ones."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from flask import Flask, current_app, request
from shipsilently_flask import ShipSilently, flags

from shipsilently_core import RetryConfig, ShipSilentlyClient
from shipsilently_core.testing import ScriptedService

from .apps import bare_app, client_of, for_user, user_of_header


def named_service(name: str) -> ScriptedService:
    """A service that tells everybody whose flags these are: the app's and the user's."""
    return ScriptedService(lambda context: {"me": f"{name}:{for_user(context)['me']}"})


@pytest.fixture
def services() -> dict[str, ScriptedService]:
    """The service of each app."""
    return {name: named_service(name) for name in ("red", "blue")}


@pytest.fixture
def apps(services: dict[str, ScriptedService]) -> dict[str, Flask]:
    """Two apps with keys of their own, which ask the service at each request."""
    made = {}
    for (name, service), other in zip(services.items(), reversed(services), strict=True):
        app = made[name] = bare_app(name)
        client = ShipSilentlyClient(
            api_key=f"sk_{name}",
            max_age=0,
            retry=RetryConfig(base_delay=0.001, max_delay=0.002),
            polling_interval=0.002,
            transport=service,
        )
        ShipSilently(app, client=client, context_loader=user_of_header)
        app.add_url_rule("/", "me", lambda: flags.get("me", "default"))
        app.add_url_rule("/both", "both", partial(both, made, other))
        app.add_url_rule("/async", "async", asynchronous)
    return made


def both(apps: dict[str, Flask], other: str) -> str:
    """Whose flags these are, before, inside and after a request to the other app."""
    before = flags.get("me", "default")
    with apps[other].test_request_context(headers={"User": request.headers["User"]}):
        inside = flags.get("me", "default")
    return f"{before} {inside} {flags.get('me', 'default')}"


async def asynchronous() -> str:
    """Whose flags these are, awaited."""
    return await flags.aget("me", "default")


def test_one_extension_serves_two_apps() -> None:
    """With one extension object each app has the client of its own configuration."""
    extension = ShipSilently()
    keys = {}
    for name in ("red", "blue"):
        app = bare_app(name, SHIPSILENTLY_API_KEY=f"sk_{name}")
        extension.init_app(app)
        with app.app_context():
            keys[name] = current_app.extensions["shipsilently"].client.config.api_key
    assert keys == {"red": "sk_red", "blue": "sk_blue"}


def test_nested_contexts_do_not_mix(apps: dict[str, Flask]) -> None:
    """Each level of nested contexts reads its own app's flags, and so it does afterwards."""
    red, blue = apps["red"], apps["blue"]
    with red.test_request_context(headers={"User": "ada"}):
        assert flags.get("me", "") == "red:ada"
        with blue.test_request_context(headers={"User": "bob"}):
            assert flags.get("me", "") == "blue:bob"
            with red.app_context():
                assert flags.get("me", "") == "red:nobody"
            assert flags.get("me", "") == "blue:bob"
        assert flags.get("me", "") == "red:ada"


def test_an_app_that_was_not_set_up_has_no_other_apps_flags(apps: dict[str, Flask]) -> None:
    """Inside a request to one app, another one without the extension is an error."""
    with (
        apps["red"].test_request_context(),
        bare_app("third").app_context(),
        pytest.raises(RuntimeError, match="'third' has no ShipSilently"),
    ):
        flags.get("me", "")


def test_no_value_ever_crosses(
    apps: dict[str, Flask], services: dict[str, ScriptedService]
) -> None:
    """16 threads ask two apps for four users each, also one inside the other and async, while their
    services fail and return: everybody gets what is his, or the default where nothing of his is
    known yet."""
    start, done = threading.Barrier(17), threading.Event()

    def visit(number: int) -> list[tuple[str, str]]:
        clients = {name: app.test_client() for name, app in apps.items()}
        start.wait(10)
        seen: list[tuple[str, str]] = []
        for turn in range(60):
            name = "red" if (number + turn) % 2 else "blue"
            user = f"u{(number + turn // 2) % 4}"
            path = ("/", "/both", "/async")[turn // 2 % 3]
            answer = clients[name].get(path, headers={"User": user})
            assert answer.status_code == 200
            other = "blue" if name == "red" else "red"
            places = (name, other, name) if path == "/both" else (name,)
            right = [f"{place}:{user}" for place in places]
            seen += zip(right, answer.text.split(), strict=True)
        return seen

    def misbehave() -> None:
        ways: list[dict[str, Any]] = [{"status": 503}, {"connected": False}, {"status": 401}]
        start.wait(10)
        for name, way in itertools.cycle(itertools.product(services, ways)):
            services[name].fail(**way)
            if done.wait(0.002):
                break
            services[name].recover()

    with ThreadPoolExecutor(17) as pool:
        trouble = pool.submit(misbehave)
        visits = [pool.submit(visit, number) for number in range(16)]
        try:
            seen = [pair for one in visits for pair in one.result(30)]
        finally:
            done.set()
        trouble.result(10)
    assert len(seen) == 16 * (40 + 20 * 3)
    assert [pair for pair in seen if pair[1] not in (pair[0], "default")] == []
    assert sum(right == found for right, found in seen) > len(seen) // 2
    for service in services.values():
        service.recover()
    pause = threading.Event()
    pause.wait(0.01)
    for name, app in apps.items():
        assert app.test_client().get("/", headers={"User": "ada"}).text == f"{name}:ada"


def test_one_apps_outage_is_not_the_others(
    apps: dict[str, Flask], services: dict[str, ScriptedService]
) -> None:
    """While one app's service is down, the other app's flags stay fresh."""
    services["red"].fail(connected=False)
    read = apps["blue"].test_client()
    apps["red"].test_client().get("/")
    services["blue"].set({"me": "changed"})
    assert read.get("/").text == "changed"


def test_apps_may_share_a_client_and_not_their_people() -> None:
    """Two apps on one client still have a loader each."""
    client = client_of(ScriptedService(for_user))
    for name in ("ada", "bob"):
        app = bare_app(name)
        ShipSilently(app, client=client, context_loader=partial(dict, userId=name))
        with app.test_request_context():
            assert flags.get("me", "") == name
