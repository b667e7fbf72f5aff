"""A store in Redis, or Valkey, that many processes on many machines share."""

from __future__ import annotations

import inspect
import math
from typing import Any, Final

from .config import checked_seconds
from .errors import ConfigurationError
from .stores import Found

__all__ = ["RedisStore"]

_WEEK = 7 * 86_400.0

#: What is known of a context (KEYS[1]), and who is to ask for it (KEYS[2] is the lease). Times
#: are whole microseconds of this server.
_GET: Final = """
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local found = redis.call('HMGET', KEYS[1], 'stamp', 'data')
local good = found[1] and ARGV[1] ~= '' and tonumber(found[1]) > tonumber(ARGV[1])
    and (ARGV[2] == '' or now - tonumber(found[1]) < tonumber(ARGV[2]))
local leads = 0
if not good then
    if ARGV[3] == '0' then
        leads = 1 - redis.call('EXISTS', KEYS[2])
    elseif redis.call('SET', KEYS[2], '', 'NX', 'PX', ARGV[3]) then
        leads = 1
    end
end
return {string.format('%.0f', now), found[2], leads}
"""

_CLOCK: Final = """
local time = redis.call('TIME')
return string.format('%.0f', time[1] * 1000000 + time[2])
"""

#: The lease ends, and what is there stays if it is newer.
_PUT: Final = """
redis.call('DEL', KEYS[2])
if ARGV[1] == '' then return 0 end
local stamp = redis.call('HGET', KEYS[1], 'stamp')
if stamp and tonumber(stamp) > tonumber(ARGV[2]) then return 0 end
redis.call('HSET', KEYS[1], 'stamp', ARGV[2], 'data', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""


class RedisStore:
    """Keeps last known good values for a fleet, and lets one process ask for all the others.

    All keys of one environment are in one slot of a cluster, so that one clock stamps them.

    Args:
        target: The server's address (``redis://``, ``rediss://``, ``unix://``, or the same with
            ``valkey``), or a blocking client of redis-py's: ``redis.Redis``, a Sentinel's
            ``master_for(...)``, ``redis.RedisCluster``. It is used as it is, so give it short
            timeouts; it must not decode answers.
        deadline: Seconds that a request waits for it at most.
        time_to_live: Seconds after which a context is forgotten that nobody has asked for.
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
        self.deadline = checked_seconds("store deadline", deadline)
        self._time_to_live = round(checked_seconds("store time_to_live", time_to_live) * 1000)
        self._prefix = prefix
        self._redis = _client(target, self.deadline)
        self._get = self._redis.register_script(_GET)
        self._put = self._redis.register_script(_PUT)
        self._clock = self._redis.register_script(_CLOCK)

    def __repr__(self) -> str:
        # The address may hold a password.
        return f"<RedisStore {self._prefix!r}>"

    def load(self, name: str) -> bytes | None:
        """See `SnapshotStore`."""
        found: bytes | None = self._redis.get(self._key(name, "snapshot"))
        return found

    def save(self, name: str, data: bytes) -> None:
        """See `SnapshotStore`."""
        self._redis.set(self._key(name, "snapshot"), data, px=self._time_to_live)

    def get(
        self, name: str, *, newer_than: float | None, younger_than: float, lease: float
    ) -> Found:
        """See `SharedStore`."""
        bound = "" if newer_than is None else _micro(newer_than)
        age = _micro(younger_than) if math.isfinite(younger_than) else ""
        args = [bound, age, str(round(lease * 1000))]
        now, data, leads = self._get(keys=self._keys(name), args=args)
        return Found(data, int(now) / 1_000_000, leads=bool(leads))

    def put(self, name: str, data: bytes | None, *, stamp: float) -> None:
        """See `SharedStore`."""
        args = [data or b"", _micro(stamp), self._time_to_live]
        self._put(keys=self._keys(name), args=args)

    def clock(self, name: str) -> float:
        """See `SharedStore`."""
        return int(self._clock(keys=[self._key(name, "snapshot")])) / 1_000_000

    def _keys(self, name: str) -> list[str]:
        environment, _, context = name.partition("/")
        return [
            self._key(environment, f"context:{context}"),
            self._key(environment, f"lease:{context}"),
        ]

    def _key(self, environment: str, rest: str) -> str:
        # Braces name the part that decides on a cluster's slot.
        return f"{self._prefix}:{{{environment}}}:{rest}"


def _micro(seconds: float) -> str:
    return str(round(seconds * 1_000_000))


def _client(target: Any, deadline: float) -> Any:
    try:
        import redis
    except ImportError:
        raise ConfigurationError(
            "store", "needs redis-py; install it with: pip install 'shipsilently[redis]'"
        ) from None
    if isinstance(target, str):
        # To Valkey, the same is spoken.
        address = target.replace("valkey", "redis", 1) if target.startswith("valkey") else target
        try:
            return redis.Redis.from_url(
                address,
                socket_timeout=deadline,
                socket_connect_timeout=deadline,
                retry=None,
                decode_responses=False,
            )
        except ValueError:
            raise ConfigurationError(
                "store", "is no address of a Redis server; write redis://host:port/0"
            ) from None
    if inspect.isclass(target) or not callable(getattr(target, "register_script", None)):
        raise ConfigurationError(
            "store", f"must be an address or a client of redis-py, not {type(target).__name__}"
        )
    if inspect.iscoroutinefunction(getattr(target, "execute_command", None)):
        raise ConfigurationError("store", "must be a blocking client of redis-py, not an async one")
    if target.get_encoder().decode_responses:
        raise ConfigurationError(
            "store", "must be a client of redis-py without decode_responses: it keeps bytes"
        )
    return target
