"""A store of last known good values on Django's cache framework.

Importable in `settings.py`: no cache is looked up before the store is used.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from django.core.cache import caches
from django.db import connections

from shipsilently_core import ConfigurationError
from shipsilently_core._cachestore import CacheStore

if TYPE_CHECKING:
    from typing import Unpack

    from shipsilently_core._settings import StoreSettings

__all__ = ["DjangoCacheStore"]


class DjangoCacheStore(CacheStore):
    """Keeps last known good values in one of the site's caches, for all processes that use it.

    Any backend will do that outlives the process: files, a database, memcached, Redis. The
    cache's own ``KEY_PREFIX``, ``VERSION`` and key function apply. It gets bytes, and nothing else
    is taken from it. That most backends pickle whatever they are given is their own matter: whoever
    can write into such a cache can do so with anything in it.

    The calls are made in a thread of the client's own. Database connections that such a call opens
    are closed with it, so none is left behind there, and no transaction of a request is touched.
    With ``background=False``, which has no such thread, they are made in the request's.

    Args:
        alias: A key of ``CACHES``.
        deadline: Seconds that a request waits for it at most. A cache behind a network needs
            milliseconds; where a connection is opened for it, some tens of them. After a failure or
            a longer wait nobody waits for it for a while.
        time_to_live: Seconds after which something is forgotten that nobody has kept again.
        prefix: The beginning of every key, behind the site's own.
        max_bytes: How large a single value may be; the default is what memcached takes.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(self, alias: str = "default", **arguments: Unpack[StoreSettings]) -> None:
        self.alias: str = _checked_alias(alias)
        super().__init__(**arguments)

    def __repr__(self) -> str:
        return f"DjangoCacheStore({self.alias!r})"

    def prepare(self) -> None:
        """Import what the cache needs; that alone can take longer than a request waits for it.

        Nothing is opened. What goes wrong will go wrong again when the cache is used.
        """
        with contextlib.suppress(Exception):
            # Where Django's backends keep what they make on first use.
            _ = getattr(caches[self.alias], "_cache", None)

    def read(self, key: str) -> Any:
        """What the cache holds."""
        with _Visit(self.alias) as cache:
            return cache.get(key)

    def write(self, key: str, data: bytes, seconds: int) -> None:
        """Put something into the cache."""
        with _Visit(self.alias) as cache:
            cache.set(key, data, seconds)


def _checked_alias(alias: Any) -> str:
    if not isinstance(alias, str) or not alias:
        raise ConfigurationError("store", "must name one of CACHES")
    return alias


class _Visit:
    """A cache for the length of one call, and nothing left open by it in this thread.

    A request's end closes caches and connections; a thread that serves no request has none.
    """

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._open = _open_connections()

    def __enter__(self) -> Any:
        return caches[self._alias]

    def __exit__(self, *error: object) -> None:
        caches[self._alias].close()
        for alias in _open_connections() - self._open:
            connections[alias].close()


def _open_connections() -> set[str]:
    """The databases that this thread is connected to."""
    return {
        one.alias for one in connections.all(initialized_only=True) if one.connection is not None
    }
