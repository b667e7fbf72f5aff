"""What type checkers see of the core's verbs. Never run: mypy reads it like any other file."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, assert_type

import shipsilently_core
from shipsilently_core import (
    Config,
    ConnectionState,
    Context,
    EvaluationResult,
    FailureReport,
    FlagKey,
    Flags,
    FlagSet,
    FlagValue,
    ShipSilentlyClient,
    signals,
)
from shipsilently_core.stores import FileStore, MemoryStore, SharedStore, SnapshotStore
from shipsilently_core.stores_redis import RedisStore
from shipsilently_core.testing import ManualClock, ScriptedService, override_flags

client_of_module = ShipSilentlyClient()


def on_error(report: FailureReport) -> None:
    """A callback."""


def settings(key: str) -> ShipSilentlyClient:
    """A client is made of a configuration or of keywords."""
    assert_type(Config(api_key=key).timeout, float)
    assert_type(Config.from_env(), Config)
    assert_type(Config.from_mapping({"API_KEY": key}), Config)
    assert_type(Config.from_env(polling_interval=10), Config)
    ShipSilentlyClient(api_key=key, timeout=1, on_error=on_error, retry={"base_delay": 2})
    ShipSilentlyClient(api_key=None, store=FileStore(), max_stale_per_flag={"flash-sale": 3600})
    ShipSilentlyClient(transport=ScriptedService({"x": True}), clock=ManualClock())
    ShipSilentlyClient(timout=1)  # type: ignore[call-arg]  # no such setting
    ShipSilentlyClient(timeout="1")  # type: ignore[arg-type]  # seconds
    Config.from_env(timout=1)  # type: ignore[call-arg]  # no such setting
    return ShipSilentlyClient(Config(api_key=key, on_error=on_error))


def plain(client: ShipSilentlyClient, who: dict[str, str]) -> None:
    """The type of the value is the default's."""
    assert_type(client.evaluate("a", who, False), bool)
    assert_type(client.evaluate("a", who, "x"), str)
    assert_type(client.evaluate("a", who, 0), float)
    assert_type(client.evaluate("a", who, 0.5), float)
    assert_type(client.evaluate("a", who, {"n": 1}), dict[str, Any])
    assert_type(client.evaluate("a", who), FlagValue)
    assert_type(client.evaluate("a"), FlagValue)
    assert_type(client.evaluate("a", None, None), FlagValue)
    assert_type(client.evaluate("a", default=False), bool)
    assert_type(client.evaluate("a", who, default="x"), str)
    assert_type(client.evaluate("a", default=1), float)
    assert_type(client.evaluate("a", default={"n": 1}), dict[str, Any])
    assert_type(client.evaluate("a", Context(user_id="u1"), False), bool)
    assert_type(client.evaluate_detail("a", who, False), EvaluationResult)
    assert_type(client.evaluate_all(who), dict[str, EvaluationResult])
    assert_type(client.evaluate_all(), dict[str, EvaluationResult])
    assert_type(client.get("a", False), bool)
    assert_type(client.get("a", "x", who), str)
    assert_type(client.get("a", 1, who), float)
    assert_type(client.get("a", {}, who), dict[str, Any])
    assert_type(client.get("a"), FlagValue)
    assert_type(client.get("a", context=who), FlagValue)
    assert_type(client.get_all(who), dict[str, EvaluationResult])
    assert_type(client.connection_state, ConnectionState)
    assert_type(client.wait_ready(1.0), bool)


async def awaited(client: ShipSilentlyClient, who: Context) -> None:
    """The awaitable verbs have the types of the plain ones."""
    assert_type(await client.aevaluate("a", who, False), bool)
    assert_type(await client.aevaluate("a", who, "x"), str)
    assert_type(await client.aevaluate("a", who, 0), float)
    assert_type(await client.aevaluate("a", who, {"n": 1}), dict[str, Any])
    assert_type(await client.aevaluate("a", who), FlagValue)
    assert_type(await client.aevaluate("a", default=False), bool)
    assert_type(await client.aevaluate_detail("a", who), EvaluationResult)
    assert_type(await client.aevaluate_all(who), dict[str, EvaluationResult])
    await client.aclose(timeout=1.0)


def request(client: ShipSilentlyClient) -> None:
    """The flags of a request."""
    assert_type(client.flags(), Flags)
    assert_type(client.flags({"userId": "u1"}, plan="pro"), Flags)
    flags = client.flags(user_id="u1")
    assert_type(flags.context, Context)
    assert_type(flags.get("a", False), bool)
    assert_type(flags.get("a", "x"), str)
    assert_type(flags.get("a", 0), float)
    assert_type(flags.get("a", {"n": 1}), dict[str, Any])
    assert_type(flags.get("a"), FlagValue)
    assert_type(flags.is_enabled("a"), bool)
    assert_type(flags.is_enabled("a", default=True), bool)
    assert_type(flags.detail("a"), EvaluationResult)
    assert_type(flags.evaluate_all(), dict[str, EvaluationResult])
    assert_type("a" in flags, bool)
    assert_type(flags.load(), Flags)
    assert_type(flags.refresh(), Flags)


class Checkout(FlagSet):
    """Typed flags."""

    checkout_v2: bool = False
    banner: Literal["blue", "green"] = "blue"
    limit: Annotated[int, FlagKey("limits/basket")] = 3


def typed(flags: Flags) -> None:
    """What a set gives."""
    checkout = flags.as_(Checkout)
    assert_type(checkout, Checkout)
    assert_type(Checkout.of(flags), Checkout)
    assert_type(checkout.checkout_v2, bool)
    assert_type(checkout.banner, Literal["blue", "green"])
    assert_type(checkout.limit, int)
    Checkout(checkout_v2=True, banner="green")
    Checkout(banner="red")  # type: ignore[arg-type]  # not one of the two
    Checkout(colour="blue")  # type: ignore[call-arg]  # no such flag
    checkout.limit = 4  # type: ignore[misc]  # frozen


async def awaited_request(flags: Flags) -> None:
    """The same, awaited."""
    assert_type(await flags.aget("a", False), bool)
    assert_type(await flags.aget("a", "x"), str)
    assert_type(await flags.aget("a", 0), float)
    assert_type(await flags.aget("a", {"n": 1}), dict[str, Any])
    assert_type(await flags.aget("a"), FlagValue)
    assert_type(await flags.ais_enabled("a"), bool)
    assert_type(await flags.adetail("a"), EvaluationResult)
    assert_type(await flags.aevaluate_all(), dict[str, EvaluationResult])
    assert_type(await flags.aload(), Flags)
    assert_type(await flags.arefresh(), Flags)
    assert_type(await flags, Flags)
    assert_type(await flags.refresh(), Flags)


def wrong(client: ShipSilentlyClient, flags: Flags) -> None:
    """What type checkers refuse; an ignore that is not needed is an error itself."""
    client.evaluate(5, None, False)  # type: ignore[call-overload]
    client.evaluate("a", "u1", False)  # type: ignore[call-overload]
    flags.get("a", b"x")  # type: ignore[call-overload]
    flags.is_enabled("a", False)  # type: ignore[call-arg]
    client.evaluate_all("u1")  # type: ignore[arg-type]
    Config(api_key=5)  # type: ignore[arg-type]


@client_of_module.flushed(timeout=0.5)
def handler(event: dict[str, str]) -> int:
    """What is decorated keeps its signature."""
    return len(event)


@override_flags({"x": True}, banner="blue")
async def check(number: int) -> str:
    """A test that is a coroutine function."""
    return f"{number}"


@override_flags(banner="blue")
class Checks:
    """Tests."""

    number: int = 1


async def kept(client: ShipSilentlyClient) -> None:
    """Decorators and blocks."""
    assert_type(handler({}), int)
    handler(5)  # type: ignore[arg-type]
    assert_type(await check(1), str)
    await check("1")  # type: ignore[arg-type]
    assert_type(Checks().number, int)
    with client.flushed() as plain, override_flags({"x": True}) as values:
        assert_type(plain, ShipSilentlyClient)
        assert_type(values, Mapping[str, Any])
    async with client.flushed() as awaited, override_flags(x=True):
        assert_type(awaited, ShipSilentlyClient)


@signals.flag_changed.connect_via("checkout-v2")
def on_checkout(flag_key: str, *, old: EvaluationResult | None, **_: object) -> str:
    """A receiver keeps its signature."""
    return flag_key


async def on_update(client: ShipSilentlyClient, *, changed: frozenset[str], **_: object) -> None:
    """A receiver that is a coroutine function."""


def told(client: ShipSilentlyClient) -> None:
    """Receivers and subscriptions."""
    assert_type(on_checkout("checkout-v2", old=None), str)
    signals.connect(signals.flags_updated, on_update, client)
    signals.disconnect(signals.flags_updated, on_update, client)
    followed: list[dict[str, EvaluationResult]] = []
    with client.stream({"userId": "u1"}, followed.append) as subscription:
        subscription.close()


def words(client: ShipSilentlyClient) -> bool:
    """Words of the protocol may be compared as such."""
    result = client.evaluate_detail("a")
    return (
        result.reason == "rule_match"
        and result.source == "server"
        and result.error == "timeout"
        and client.connection_state == "polling"
        and client.status().gate == "server"
    )


class Bucket:
    """A store of somebody's own."""

    def load(self, name: str) -> bytes | None:
        """See `SnapshotStore`."""
        return None

    def save(self, name: str, data: bytes) -> None:
        """See `SnapshotStore`."""


snapshots: list[SnapshotStore] = [Bucket(), FileStore("flags.snapshot", max_contexts=10)]
shared: list[SharedStore] = [MemoryStore(), RedisStore("redis://127.0.0.1", deadline=0.02)]


_ = shipsilently_core.no_such_name  # type: ignore[attr-defined]  # though some are imported late
