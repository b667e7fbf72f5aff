"""A store in Redis, or Valkey, that many processes on many machines share."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from hashlib import sha1
from typing import Any, Final
from urllib.parse import urlsplit

from .config import checked_seconds
from .errors import ConfigurationError
from .stores import Found

__all__ = ["RedisStore"]

_WEEK = 7 * 86_400.0

#: The clock of an environment (KEYS[1]), in whole microseconds. It is the server's, but never
#: goes back where that does, or where another server takes over: then it goes on from the last
#: moment that it may have shown, which is written down a hundredth of a second ahead.
_CLOCK: Final = """
local function exact(number) return string.format('%.0f', number) end
local time, kept = redis.call('TIME'), redis.call('HMGET', KEYS[1], 'offset', 'until')
local offset, last = tonumber(kept[1] or 0), tonumber(kept[2] or 0)
local now = time[1] * 1000000 + time[2] + offset
if now < last - 10000 then
    offset = offset + last - now
    now = last
end
if now >= last then
    redis.call('HSET', KEYS[1], 'offset', exact(offset), 'until', exact(now + 10000))
    redis.call('PEXPIRE', KEYS[1], 2 * ARGV[1])
end
"""

_NOW: Final = _CLOCK + "return exact(now)"

#: What is known of a context (KEYS[2]: sixteen digits of its stamp, then the data; a hash takes
#: a hundred bytes more), and who is to ask for it (KEYS[3] is the lease).
_GET: Final = (
    _CLOCK
    + """
local found = redis.call('GET', KEYS[2])
local stamp = found and tonumber(found:sub(1, 16)) or -1
local good = found and ARGV[2] ~= '' and stamp > tonumber(ARGV[2]) and stamp <= now
    and (ARGV[3] == '' or now - stamp < tonumber(ARGV[3]))
local leads = 0
if not good then
    if ARGV[4] == '0' then
        leads = 1 - redis.call('EXISTS', KEYS[3])
    elseif redis.call('SET', KEYS[3], '', 'NX', 'PX', ARGV[4]) then
        leads = 1
    end
end
if found and redis.call('PTTL', KEYS[2]) < ARGV[1] / 2 then
    redis.call('PEXPIRE', KEYS[2], ARGV[1])
end
return {exact(now), found and found:sub(17), leads}
"""
)

#: The lease ends, and what is there stays if it is newer, unless it is from the future.
_PUT: Final = (
    _CLOCK
    + """
redis.call('DEL', KEYS[3])
if ARGV[2] == '' then return 0 end
local stamp = tonumber(redis.call('GETRANGE', KEYS[2], 0, 15)) or -1
if stamp > tonumber(ARGV[3]) and stamp <= now then return 0 end
redis.call('SET', KEYS[2], ARGV[3] .. ARGV[2], 'PX', ARGV[1])
return 1
"""
)


class RedisStore:
    """Keeps last known good values for a fleet, and lets one process ask for all the others.

    Each of its calls is one round trip. All keys of one environment are in one slot of a
    cluster, so that one clock stamps them. It needs Redis 5 or newer, or Valkey, and the
    commands GET, SET, GETRANGE, DEL, EXISTS, HSET, HMGET, PTTL, PEXPIRE, TIME, EVAL and EVALSHA.

    Args:
        target: The server's address (``redis://``, ``rediss://``, ``unix://``, or the same with
            ``valkey``), or a blocking client of redis-py's: ``redis.Redis``, a Sentinel's
            ``master_for(...)``, ``redis.RedisCluster``. It is used as it is, so give it short
            timeouts and few retries; it must not decode answers.
        deadline: Seconds that a request waits for it at most.
        time_to_live: Seconds after which a context is forgotten that no process has looked for.
        prefix: The beginning of every key.

    Raises:
        ConfigurationError: redis-py is missing, or an argument is wrong.
    """

    def __init__(
        self,
        target: Any,
        *,
        deadline: float = 0.05,
        time_to_live: float = _WEEK,
        prefix: str = "shipsilently",
    ) -> None:
        self.deadline: float = checked_seconds("store deadline", deadline)
        self._time_to_live = round(
            checked_seconds("store time_to_live", time_to_live, least=1.0) * 1000
        )
        given: Any = prefix
        if not isinstance(given, str) or "{" in given or "}" in given:
            # The first braces of a key decide on a cluster's slot.
            raise ConfigurationError("store prefix", "must be a string without { and }")
        self._prefix = prefix
        self._redis = _client(target, self.deadline)
        self._is_mine = isinstance(target, str)

    def __repr__(self) -> str:
        # The address may hold a password.
        return f"<RedisStore {self._prefix!r}>"

    def close(self) -> None:
        """Let go of the connections to an address; a client that was given is its owner's."""
        if self._is_mine:
            self._redis.connection_pool.disconnect()

    def load(self, name: str) -> bytes | None:
        """See `SnapshotStore`."""
        key = self._key(name, "snapshot")
        found: bytes | None = self._healing([key], lambda: self._ask("get", key))
        return found

    def save(self, name: str, data: bytes) -> None:
        """See `SnapshotStore`."""
        self._ask("set", self._key(name, "snapshot"), data, px=self._time_to_live)

    def get(
        self, name: str, *, newer_than: float | None, younger_than: float, lease: float
    ) -> Found:
        """See `SharedStore`."""
        bound = "" if newer_than is None else _micro(newer_than)
        age = _micro(younger_than) if math.isfinite(younger_than) else ""
        # The shortest lease that there is, for less than that.
        leased = max(1, round(lease * 1000)) if lease > 0 else 0
        now, data, leads = self._run(_GET, self._keys(name), bound, age, leased)
        return Found(data, int(now) / 1_000_000, leads=bool(leads))

    def put(self, name: str, data: bytes | None, *, stamp: float) -> None:
        """See `SharedStore`."""
        self._run(_PUT, self._keys(name), data or b"", _micro(stamp).zfill(16))

    def clock(self, name: str) -> float:
        """See `SharedStore`."""
        return int(self._run(_NOW, [self._key(name, "clock")])) / 1_000_000

    def _run(self, script: str, keys: list[str], *arguments: object) -> Any:
        from redis.exceptions import NoScriptError

        given = (len(keys), *keys, self._time_to_live, *arguments)

        def run() -> Any:
            try:
                return self._ask("evalsha", _DIGESTS[script], *given)
            except NoScriptError:
                # A server that has never seen it, or was restarted; from now on it knows it.
                return self._ask("eval", script, *given)

        return self._healing(keys, run)

    def _healing(self, keys: list[str], work: Callable[[], Any]) -> Any:
        from redis.exceptions import ResponseError

        try:
            return work()
        except ResponseError as error:
            if "WRONGTYPE" not in str(error):
                raise
            # Somebody else has put something else there, which would be in the way for ever.
            self._ask("delete", *keys)
            return work()

    def _ask(self, command: str, *given: Any, **options: Any) -> Any:
        from redis.exceptions import ReadOnlyError

        try:
            return getattr(self._redis, command)(*given, **options)
        except ReadOnlyError:
            # Another server has taken over. The address leads there, and this connection never.
            if self._is_mine:
                self._redis.connection_pool.disconnect(inuse_connections=False)
            raise

    def _keys(self, name: str) -> list[str]:
        environment, _, context = name.partition("/")
        return [
            self._key(environment, "clock"),
            self._key(environment, f"context:{context}"),
            self._key(environment, f"lease:{context}"),
        ]

    def _key(self, environment: str, rest: str) -> str:
        # Braces name the part that decides on a cluster's slot.
        return f"{self._prefix}:{{{environment}}}:{rest}"


_DIGESTS: Final = {
    script: sha1(script.encode(), usedforsecurity=False).hexdigest()
    for script in (_NOW, _GET, _PUT)
}


def _micro(seconds: float) -> str:
    return str(round(seconds * 1_000_000))


def _client(target: Any, deadline: float) -> Any:
    try:
        import redis
    except ImportError:
        raise ConfigurationError(
            "store", "needs redis-py, the extra `redis`; install it with: pip install redis"
        ) from None
    if isinstance(target, str):
        client = _client_of(target, deadline)
    else:
        client = target
        if inspect.isclass(client) or not callable(getattr(client, "evalsha", None)):
            raise ConfigurationError(
                "store",
                "must be an address or a client of redis-py (of a Sentinel: its master_for), "
                f"not {getattr(client, '__name__', type(client).__name__)}",
            )
        if inspect.iscoroutinefunction(getattr(client, "execute_command", None)):
            raise ConfigurationError(
                "store", "must be a blocking client of redis-py, not an async one"
            )
        if isinstance(client, redis.client.Pipeline):
            raise ConfigurationError("store", "must be a client of redis-py, not a pipeline")
    if _decodes(client):
        raise ConfigurationError(
            "store", "must be a client of redis-py without decode_responses: it keeps bytes"
        )
    return client


def _decodes(client: Any) -> bool:
    encoder = getattr(client, "get_encoder", None)
    return encoder is not None and bool(encoder().decode_responses)


def _client_of(address: str, deadline: float) -> Any:
    """A client for an address; nothing is opened yet."""
    import redis
    from redis.backoff import NoBackoff
    from redis.retry import Retry

    if address.startswith("valkey"):
        # To Valkey, the same is spoken.
        address = address.replace("valkey", "redis", 1)
    try:
        parts = urlsplit(address)
        if parts.scheme != "unix" and not (parts.path.strip("/") or "0").isdecimal():
            # No number of a database, but redis-py would take it for 0.
            raise ValueError
        client = redis.Redis.from_url(
            address,
            socket_timeout=deadline,
            socket_connect_timeout=deadline,
            retry=Retry(NoBackoff(), 0),
        )
        # Otherwise options of another meaning would be found out at the first request.
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)
    except (ValueError, TypeError, redis.RedisError):
        # Their texts may hold the password.
        raise ConfigurationError(
            "store",
            "is no address of a Redis server; write redis://host:port/0, with options that "
            "redis-py knows",
        ) from None
    return client
