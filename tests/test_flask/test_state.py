"""What an app has, and how apps come to share a client."""

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
from shipsilently_flask.state import shared_client, state_of

from shipsilently_core import Config

from .apps import bare_app, make_app


def test_threads_that_set_up_apps_share_one_client() -> None:
    """Apps that are made at the same time in several threads still have one client."""
    config = Config(api_key="sk_race")
    with ThreadPoolExecutor(8) as pool:
        clients = list(pool.map(lambda _: shared_client(config, alone=False), range(32)))
    assert len(set(map(id, clients))) == 1


def test_a_client_goes_with_its_last_app() -> None:
    """Sharing keeps no client alive that nobody uses any more."""
    client = shared_client(Config(api_key="sk_gone"), alone=False)
    gone = weakref.ref(client)
    del client
    gc.collect()
    assert gone() is None


def test_the_state_is_in_the_extensions() -> None:
    """`app.extensions["shipsilently"]` has the client and the settings."""
    app = make_app(client_flags=["x"])
    state = state_of(app)
    assert app.extensions["shipsilently"] is state
    assert state.settings.client_flags == ("x",)
    assert state.client.config.api_key == "sk_test"


def test_an_app_without_state_is_named() -> None:
    """An app that was not set up is an error that says how to do it."""
    with pytest.raises(RuntimeError, match=r"'plain' has no ShipSilently: write "):
        state_of(bare_app("plain"))
