"""Where a gate sends those whom it turns away: an endpoint, or the address of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import SplitResult, unquote, urlsplit

from flask import current_app, redirect, request, url_for
from msgspec import Struct
from werkzeug.routing import BuildError
from werkzeug.urls import iri_to_uri

if TYPE_CHECKING:
    from flask.sansio.scaffold import Scaffold
    from werkzeug.wrappers import Response

__all__ = ["Target", "target_of"]

_DEFAULT_PORTS = {"http": 80, "https": 443}


class Target(Struct, frozen=True):
    """A page that others than those who may pass are sent to.

    Attributes:
        given: What the gate's author wrote.
        where: The app or blueprint that is gated; ``None`` for a single view.
        is_address: Whether it is a path or a URL, and no endpoint.
        path: Of an address: decoded, and without a slash at its end.
        host: Of a URL: with its port, if that is not the usual one.
    """

    given: str
    where: Scaffold | None
    is_address: bool = False
    path: str = ""
    host: str | None = None

    def is_here(self) -> bool:
        """Whether this request is for that page."""
        if not self.is_address:
            return request.endpoint == self._endpoint()
        # Another site may have a page at the path of one that is gated here.
        if self.host is not None and self.host != request.host.lower():
            return False
        path = request.path.rstrip("/")
        return self.path in (path, f"{request.script_root}{path}")

    def response(self) -> Response | None:
        """The answer that leads there; ``None`` where the endpoint has no URL."""
        if self.is_address:
            return redirect(self.given)
        try:
            return redirect(url_for(self._endpoint()))
        except BuildError:
            return None

    def _endpoint(self) -> str:
        """The endpoint's full name.

        One with a dot before it belongs to the gated blueprint, else to the nearest of those
        around it that has such an endpoint, else to the app.
        """
        if not self.given.startswith("."):
            return self.given
        names = [f"{blueprint}{self.given}" for blueprint in self._blueprints()]
        for name in names:
            if name in current_app.view_functions:
                return name
        return self.given[1:]

    def _blueprints(self) -> list[str]:
        """The gated blueprint by the name that it has in this request, and those around it."""
        around = request.blueprints
        if self.where is None:
            return around
        for index, name in enumerate(around):
            if current_app.blueprints.get(name) is self.where:
                return around[index:]
        return []


def target_of(given: str, where: Scaffold | None) -> Target:
    """What `redirect_to` says: with a ``/`` in it a path or a URL, else an endpoint.

    Raises:
        ValueError: It is not a URL that could be asked for.
    """
    if "/" not in given:
        return Target(given, where)
    parts = urlsplit(iri_to_uri(given))
    return Target(given, where, True, unquote(parts.path).rstrip("/"), _host(parts))


def _host(parts: SplitResult) -> str | None:
    if parts.hostname is None:
        return None
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    usual = parts.port in (None, _DEFAULT_PORTS.get(parts.scheme))
    return host if usual else f"{host}:{parts.port}"
