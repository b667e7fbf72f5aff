"""A store of last known good values on Flask-Caching."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from shipsilently_core import ConfigurationError
from shipsilently_core._cachestore import CacheStore

if TYPE_CHECKING:
    from typing import Unpack

    from shipsilently_core._settings import StoreSettings

__all__ = ["FlaskCachingStore"]


class FlaskCachingStore(CacheStore):
    """Keeps last known good values in the app's cache, for all processes that use it.

    Any backend will do that outlives the process: files, memcached, Redis. ``CACHE_KEY_PREFIX``
    applies. It gets bytes, and nothing else is taken from it. That most backends pickle whatever
    they are given is their own matter: whoever can write into such a cache can do so with anything
    in it.

    The calls are made in a thread of the client's own, which has no app context: there it is the
    cache of the app that was set up last. Apps with caches of their own need a ``Cache`` each.

    Args:
        cache: The app's ``flask_caching.Cache``; its ``init_app`` may come later.
        deadline: Seconds that a request waits for it at most. A cache behind a network needs
            milliseconds; where a connection is opened for it, some tens of them. After a failure or
            a longer wait nobody waits for it for a while.
        time_to_live: Seconds after which something is forgotten that nobody has kept again.
        prefix: The beginning of every key, behind the app's own.
        max_bytes: How large a single value may be; the default is what memcached takes.

    Raises:
        ConfigurationError: An argument is wrong.
    """

    def __init__(self, cache: Any, **arguments: Unpack[StoreSettings]) -> None:
        if isinstance(cache, type) or not all(
            callable(getattr(cache, name, None)) for name in ("get", "set", "init_app")
        ):
            raise ConfigurationError(
                "store", f"needs the app's flask_caching.Cache, not {type(cache).__name__}"
            )
        self._cache = cache
        super().__init__(**arguments)

    def __repr__(self) -> str:
        return f"<FlaskCachingStore {self._prefix!r}>"

    def read(self, key: str) -> Any:
        """What the cache holds.

        Raises:
            OSError: The cache has not been set up.
        """
        return self._set_up().get(key)

    def write(self, key: str, data: bytes, seconds: int) -> None:
        """Put something into the cache.

        Raises:
            OSError: It was not taken, or the cache has not been set up.
        """
        if self._set_up().set(key, data, timeout=seconds) is False:
            # Backends log what happened, or swallow it.
            raise OSError(errno.EIO, "the cache did not take it")

    def _set_up(self) -> Any:
        if getattr(self._cache, "app", None) is None:
            raise OSError(errno.ENXIO, "Cache.init_app has not been called")
        return self._cache
