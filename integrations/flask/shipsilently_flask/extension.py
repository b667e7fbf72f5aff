"""`ShipSilently`: puts flags into a Flask app."""

from __future__ import annotations

import inspect
import logging
from typing import TYPE_CHECKING, TypeVar

import click
from flask import Flask
from flask.cli import AppGroup

from shipsilently_core import ConfigurationError, ShipSilentlyClient
from shipsilently_core._log import say

from .current import follow_logins, forget_flags
from .order import check_order, remember_app, unused_gates
from .settings import read_settings
from .state import NAME, ContextLoader, State, shared_client
from .visitors import answer_last

if TYPE_CHECKING:
    from typing import Unpack

    from .settings import Keywords

__all__ = ["ShipSilently"]

Loader = TypeVar("Loader", bound=ContextLoader)

#: By its name, so that it is imported with the app's Jinja environment: many apps have no template.
_JINJA_EXTENSION = "shipsilently_flask.templating.FlagExtension"

_HELP = "Ask for feature flags, as this app's client sees them."


class _Commands(AppGroup):
    """``flask shipsilently``, imported when it is used: no server needs it.

    An app may add commands of its own.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names."""
        from .commands import commands

        return sorted({*commands.list_commands(ctx), *super().list_commands(ctx)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """One of them."""
        from .commands import commands

        return super().get_command(ctx, cmd_name) or commands.get_command(ctx, cmd_name)


class ShipSilently:
    """Flags for one app, or for each of several.

    Setting up opens nothing and starts nothing: the client begins its work with the
    first flag that a request reads. Everything that belongs to an app is in
    ``app.extensions["shipsilently"]``; the extension itself knows no app.

    Args:
        app: The app; or leave it out and call `init_app` in the app's factory.
        client: A ready client, for tests and for settings of its own.
        context_loader: See `context_loader`.
        config: The settings, as `shipsilently_core.Config` and the manual spell them;
            the app's own configuration, ``SHIPSILENTLY_…``, wins over these.

    Raises:
        ConfigurationError: With an `app` or in `init_app`: names the key that is wrong.
    """

    def __init__(
        self,
        app: Flask | None = None,
        *,
        client: ShipSilentlyClient | None = None,
        context_loader: ContextLoader | None = None,
        **config: Unpack[Keywords],
    ) -> None:
        self._client = client
        self._given = config
        self.loader: ContextLoader | None = None
        if context_loader is not None:
            self.context_loader(context_loader)
        if app is not None:
            self.init_app(app)

    def init_app(self, app: Flask) -> None:
        """Set up an app, once.

        Raises:
            ConfigurationError: A setting is wrong, this is no app, or one that is set up already.
        """
        if not isinstance(app, Flask):
            raise ConfigurationError(
                "app", f"is a {type(app).__name__}, and must be a Flask app; a key goes to api_key="
            )
        if NAME in app.extensions:
            raise ConfigurationError(
                "init_app", f"the app {app.name!r} is set up already; one call is enough"
            )
        settings = read_settings(app, self._given, ready_client=self._client is not None)
        client, asked = self._client, None
        if client is None:
            assert settings.config is not None
            client = shared_client(settings.config, alone=app.testing)
            asked = None if app.testing else app.config
        _add_to_jinja(app)
        if settings.anonymous_id == "cookie":
            answer_last(app)
        # Here, too, since a request that is pushed by hand has no first-request hooks.
        follow_logins()
        _at_first_request(app)
        app.cli.add_command(_Commands("shipsilently", help=_HELP))
        app.extensions[NAME] = State(settings, self, client, asked)
        remember_app(app)

    def context_loader(self, loader: Loader) -> Loader:
        """Register the function that says whom flags are for; use it as a decorator.

        It is called without arguments, in requests only, at most once in each and not
        before the first flag is read, and returns the context's attributes or ``None``.
        Without one it is Flask-Login's current user, where the app uses that.

        Raises:
            ConfigurationError: It is a coroutine function, which templates could not wait for.
        """
        if inspect.iscoroutinefunction(loader):
            raise ConfigurationError(
                "context_loader", "must be a plain function: templates read flags, too"
            )
        if not callable(loader):
            raise ConfigurationError("context_loader", "must be a function without arguments")
        self.loader = loader
        return loader

    def reload_context(self) -> None:
        """Somebody logged in or out during this request: the next flag read is for them.

        Flask-Login's logins and logouts are followed without this.
        """
        forget_flags()


def _add_to_jinja(app: Flask) -> None:
    """Add the extension to the app's Jinja environment, now or when that is made.

    The environment is not made for this: an app may still set its ``jinja_options``.
    """
    if "jinja_env" in vars(app):
        app.jinja_env.add_extension(_JINJA_EXTENSION)
        return
    options = dict(app.jinja_options)
    options["extensions"] = [*options.get("extensions", ()), _JINJA_EXTENSION]
    app.jinja_options = options


def _at_first_request(app: Flask) -> None:
    """Do at the first request what needs the whole app, and cost the others nothing.

    Only then are all views there. While the order of decorators is wrong, every request
    fails: what was to be hidden is not shown by mistake. What may be meant so is told, once.
    """
    told: set[str] = set()

    def at_first_request() -> None:
        check_order(app)
        for problem in unused_gates(app):
            if problem not in told:
                # Several requests may be the first.
                told.add(problem)
                say(logging.ERROR, "%s", problem)
        follow_logins()
        # A new list, since the old one is being walked.
        hooks = app.before_request_funcs[None]
        app.before_request_funcs[None] = [hook for hook in hooks if hook is not at_first_request]

    app.before_request(at_first_request)
