"""A scripted service behind the site's client, and a browser under each kind of server."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.urls import path
from pytest_django import Settings
from shipsilently_django.setup import reset_setup

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ManualClock, ScriptedService

from .site import Browser, Urls, View


@pytest.fixture(autouse=True)
def _setup_of_its_own() -> Iterator[None]:
    """No test sees the client of another."""
    reset_setup()
    yield
    reset_setup()


@pytest.fixture
def service() -> ScriptedService:
    """A service with the flag `x`, which is on."""
    return ScriptedService({"x": True})


@pytest.fixture
def clock() -> ManualClock:
    """The client's clock."""
    return ManualClock()


@pytest.fixture
def client_of_service(service: ScriptedService, clock: ManualClock) -> ShipSilentlyClient:
    """A client that talks to the scripted service."""
    return ShipSilentlyClient(api_key="sk_test", transport=service, clock=clock)


@pytest.fixture
def configure(settings: Settings, client_of_service: ShipSilentlyClient) -> Callable[..., None]:
    """Sets ``SHIPSILENTLY``, beside the client of the scripted service."""

    def configure(**options: Any) -> None:
        settings.SHIPSILENTLY = {"CLIENT": client_of_service, **options}

    configure()
    return configure


@pytest.fixture
def serve(settings: Settings, configure: Callable[..., None]) -> Callable[..., None]:
    """Puts views onto the site: one at ``/``, others at ``/name/``."""

    def serve(front: View, **views: View) -> None:
        named = [path(f"{name}/", view) for name, view in views.items()]
        settings.ROOT_URLCONF = Urls(path("", front), *named)

    return serve


@pytest.fixture(params=["wsgi", "asgi"])
def browser(request: pytest.FixtureRequest) -> Browser:
    """A visitor, once under WSGI and once under ASGI."""
    return Browser(request.param)


@pytest.fixture
def ada(db: None) -> User:
    """Somebody with an account."""
    return User.objects.create_user("ada", "ada@example.com", "demo")


@pytest.fixture
def bob(db: None) -> User:
    """Somebody else."""
    return User.objects.create_user("bob", "bob@example.com", "demo")
