"""What type checkers see of shipsilently_flask. Checked, never run."""

from collections.abc import Callable
from typing import Any, assert_type

import shipsilently_flask
from flask import Blueprint, Flask
from flask.views import MethodView
from flask_caching import Cache
from shipsilently_flask import (
    FlaskCachingStore,
    ShipSilently,
    flags,
    health_blueprint,
    override_flags,
    requires_flag,
)
from shipsilently_flask.signals import flag_evaluated, gate_refused

from shipsilently_core import EvaluationResult, Flags, FlagSet, FlagValue, ShipSilentlyClient

app = Flask(__name__)
shipsilently = ShipSilently(app, timeout=1, retry={"base_delay": 2}, anonymous_id="cookie")
ShipSilently(client=ShipSilentlyClient(api_key="k"), client_flags=["banner"])
ShipSilently(context_loader=lambda: {"userId": "u1"}).init_app(app)
ShipSilently(app, timout=1)  # type: ignore[call-arg]  # no such setting
ShipSilently(app, timeout="1")  # type: ignore[arg-type]  # seconds
FlaskCachingStore(Cache(), deadline=0.1, time_to_live=60, prefix="shop", max_bytes=1)
FlaskCachingStore(Cache(), dedline=0.1)  # type: ignore[call-arg]  # no such argument
app.register_blueprint(health_blueprint("/health/flags", unavailable=200))


class Checkout(FlagSet):
    """Typed flags."""

    checkout_v2: bool = False


def reads() -> Flags:
    """The proxy has the types of what it stands for."""
    assert_type(flags.get("x", False), bool)
    assert_type(flags.get("x", "a"), str)
    assert_type(flags.get("x", 1), float)
    assert_type(flags.get("x", {}), dict[str, Any])
    assert_type(flags.get("x"), FlagValue)
    assert_type(flags.is_enabled("x"), bool)
    assert_type(flags.detail("x", "a"), EvaluationResult)
    assert_type(flags.evaluate_all(), dict[str, EvaluationResult])
    assert_type("x" in flags, bool)
    assert_type(flags.as_(Checkout).checkout_v2, bool)
    return flags


@shipsilently.context_loader
def load_context() -> dict[str, str] | None:
    """It stays the function that it was."""
    return None


def old_report(year: int) -> str:
    """A fallback."""
    return f"{year}"


@app.get("/report/<int:year>")
@requires_flag("new-report", "!maintenance", value=True, status=403, fallback=old_report)
def report(year: int) -> str:
    """A view keeps its signature."""
    return f"{year}"


@app.get("/live/<int:year>")
@requires_flag("live", redirect_to=".soon")
async def live(year: int) -> str:
    """A coroutine function, too."""
    assert_type(await flags.aget("x", False), bool)
    assert_type(await flags.ais_enabled("x"), bool)
    assert_type((await flags).get("x", "a"), str)
    return f"{year}"


class Orders(MethodView):
    """The whole class, and one method of it."""

    decorators = [requires_flag("orders")]  # noqa: RUF012  # as in Flask

    @requires_flag("orders-v2")
    def get(self, number: int) -> str:
        """A method."""
        return f"{number}"


@override_flags({"x": True}, banner="blue")
def check(client: str, number: int = 1) -> str:
    """A test."""
    return client * number


@override_flags({"x": True})
class Checks:
    """Tests."""

    number: int = 1


async def kept() -> None:
    """What is decorated keeps its type."""
    assert_type(load_context(), dict[str, str] | None)
    assert_type(report(2025), str)
    report("2025")  # type: ignore[arg-type]
    assert_type(await live(2025), str)
    await live("2025")  # type: ignore[arg-type]
    assert_type(Orders().get(1), str)
    Orders().get("1")  # type: ignore[arg-type]
    assert_type(check("a", number=2), str)
    check(1)  # type: ignore[arg-type]
    assert_type(Checks().number, int)
    labs = Blueprint("labs", __name__)
    flags.gate(labs, "beta", status=403)
    flags.gate(labs, "beta", stat=403)  # type: ignore[call-arg]


@flag_evaluated.connect_via(app)
def on_read(sender: Flask, *, result: EvaluationResult, **_: object) -> None:
    """A receiver."""


@gate_refused.connect
def on_refusal(sender: Flask, *, flag_key: str, **_: object) -> None:
    """Another."""


receivers: tuple[Callable[..., None], Callable[..., None]] = (on_read, on_refusal)


_ = shipsilently_flask.no_such_name  # type: ignore[attr-defined]  # though some are imported late
