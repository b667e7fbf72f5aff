"""`ShipSilently`: the one client of an app, and whom it evaluates flags for."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import HTTPConnection

from shipsilently_core import Config, ConfigurationError, Context, ShipSilentlyClient
from shipsilently_core._log import say
from shipsilently_core._seen import NOTHING

from .connection import RequestFlags
from .lifespan import STATE, Lifespan
from .middleware import FlagsMiddleware
from .person import UNASKED
from .routing import hide_closed_routes

if TYPE_CHECKING:
    from typing import Unpack

    from shipsilently_core._settings import Settings

__all__ = ["ShipSilently"]

#: What a context function may give; it takes an `HTTPConnection`, so a `Request` or a `WebSocket`.
GivenContext = Context | Mapping[str, Any] | None
ContextFunction = Callable[[Any], GivenContext | Awaitable[GivenContext]]


class ShipSilently:
    """The client of one app, or of several that share it.

    Making one checks the settings and opens nothing: no thread, no socket. It starts
    with the app's lifespan, and where none runs, with the first request.

    ::

        shipsilently = ShipSilently(context=lambda connection: {"userId": ...})
        app = FastAPI(lifespan=shipsilently.lifespan)

    Args:
        config: The settings; or give them as keywords, as `Config` spells them. Left
            out, key and address come from the environment.
        context: Gives the attributes of whoever is at the other end of a request or a
            socket; ``async``, or plain if it waits for nothing. Called when the first
            flag is needed, at most once for each. Left out, all are evaluated for the
            empty context; see also `FlagsDependency.using`.
        client: A client of your own, which stays yours to close; or a function that
            makes one, called for each life of the app. For sharing one, and for tests.
        settings: See `Config`.

    Raises:
        ConfigurationError: A setting is missing or wrong.
    """

    def __init__(
        self,
        config: Config | None = None,
        *,
        context: ContextFunction | None = None,
        client: ShipSilentlyClient | Callable[[], ShipSilentlyClient] | None = None,
        **settings: Unpack[Settings],
    ) -> None:
        if client is not None and (config is not None or settings):
            given = "config" if config is not None else next(iter(settings))
            raise ConfigurationError(given, "is given beside a client, which has its own")
        if client is not None and not (isinstance(client, ShipSilentlyClient) or callable(client)):
            raise ConfigurationError(
                "client", f"is a {type(client).__name__}, and must be a client or make one"
            )
        if context is not None and not callable(context):
            raise ConfigurationError("context", "must be a function that takes the connection")
        self.context = context
        self.lifespan: Lifespan = Lifespan(self)
        self._make: Callable[[], ShipSilentlyClient] = partial(
            ShipSilentlyClient, config, **settings
        )
        self._is_theirs = isinstance(client, ShipSilentlyClient)
        if not isinstance(client, ShipSilentlyClient):
            if client is not None:
                self._make = client
            client = self._make()
        #: The client; ``None`` between two lives of the app.
        self.made: ShipSilentlyClient | None = client
        #: The app whose requests have last found that they are always served by this.
        self.app: Starlette | None = None
        self._config = client.config
        self._lock = Lock()
        #: How many lifespans keep it going.
        self.running: int = 0
        #: Whether a request that comes now would be worth a word, since no lifespan has run.
        self.unannounced: bool = True
        self._told = False

    def __repr__(self) -> str:
        return f"<ShipSilently {self._config.api_url}>"

    @property
    def client(self) -> ShipSilentlyClient:
        """The client. After the lifespan has ended, it is a new one."""
        client = self.made
        if client is None:
            # The lifespan has closed the last one, and the app lives again, as in tests.
            with self._lock:
                client = self.made = self.made or self._make()
        return client

    @property
    def config(self) -> Config:
        """The settings, as checked."""
        return self._config

    def flags(
        self, connection: HTTPConnection, *, client: ShipSilentlyClient | None = None
    ) -> RequestFlags:
        """New flags for one request or socket: nothing happens until the first is read.

        Args:
            connection: The request or socket.
            client: Another client than its own, as that of the app around a mounted one.
        """
        return RequestFlags(
            client or self.client, UNASKED, NOTHING, _shipsilently=self, _connection=connection
        )

    def install(self, app: Starlette, *, server_timing: bool = False) -> None:
        """Join an app: its lifespan, whatever it is, and its middleware. Once for each app.

        Args:
            app: A FastAPI or Starlette app that has not started yet.
            server_timing: Tell browsers' developer tools what the flags have cost.
        """
        for entry in app.user_middleware:
            added: object = entry.cls
            if added is FlagsMiddleware and entry.kwargs.get("shipsilently") is self:
                return
        setattr(app.state, STATE, self)
        app.router.lifespan_context = self.lifespan(inner=app.router.lifespan_context)
        app.add_middleware(FlagsMiddleware, shipsilently=self, server_timing=server_timing)
        if isinstance(app, FastAPI):
            hide_closed_routes(app, self)

    def joins(self, outer: ShipSilently | None) -> bool:
        """Whether its app can use the client of the app around: for the same environment."""
        if outer is None:
            return False
        mine, theirs = self._config, outer.config
        return (mine.api_url, mine.api_key) == (theirs.api_url, theirs.api_key)

    def start(self) -> None:
        """Start the client, for the lifespan. Returns at once and never raises."""
        with self._lock:
            self.running += 1
            self.unannounced = False
            # It may be mounted elsewhere in this life.
            self.app = None
        try:
            self.client.start()
        except Exception as error:
            message = "the client could not be started; flags keep their defaults"
            say(logging.ERROR, message, error=error)

    async def stop(self) -> None:
        """Close the client with the last lifespan that uses it. Never raises."""
        with self._lock:
            self.running -= 1
            if self.running:
                return
            self.unannounced = not self._told
        try:
            client = self._release()
            if client is not None:
                await client.aclose()
        except Exception as error:
            say(logging.ERROR, "the client could not be closed properly", error=error)

    def close(self) -> None:
        """Close the client where no lifespan does it, as at the end of a test or a script.

        A request that comes afterwards starts a new one.
        """
        client = self._release()
        if client is not None:
            client.close()

    def _release(self) -> ShipSilentlyClient | None:
        if self._is_theirs:
            return None
        with self._lock:
            client, self.made = self.made, None
        return client

    def tell_if_lazy(self) -> None:
        """Say once that a request came before any lifespan."""
        if not self.unannounced:
            return
        self.unannounced, self._told = False, True
        say(
            logging.WARNING,
            "the client starts with this request, since no lifespan of the app has run: give "
            "the app lifespan=shipsilently.lifespan, or call shipsilently.install(app); in "
            "tests, write `with TestClient(app) as client`",
        )
