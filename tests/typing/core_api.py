"""What type checkers see of the core's verbs. Never run: mypy reads it like any other file."""

from typing import Annotated, Any, Literal, assert_type

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
)


def on_error(report: FailureReport) -> None:
    """A callback."""


def settings(key: str) -> ShipSilentlyClient:
    """A client is made of a configuration or of keywords."""
    assert_type(Config(api_key=key).timeout, float)
    assert_type(Config.from_env(), Config)
    assert_type(Config.from_mapping({"API_KEY": key}), Config)
    ShipSilentlyClient(api_key=key, timeout=1, on_error=on_error)
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
