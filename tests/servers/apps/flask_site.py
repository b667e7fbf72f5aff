"""A Flask site."""

from __future__ import annotations

from typing import Any

from flask import Flask, request
from shipsilently_flask import ShipSilently, flags

from tests.servers.apps.answer import answer, hold, set_up

app = Flask(__name__)
ShipSilently(app, context_loader=lambda: {"userId": request.args["user"]})
client = app.extensions["shipsilently"].client
set_up(client)


@app.get("/ping")
def ping() -> dict[str, Any]:
    """Read no flag."""
    return {}


@app.get("/flags")
def show() -> dict[str, Any]:
    """Read flags."""
    hold(request.args.get("hold", ""))
    return answer(client, flags)
