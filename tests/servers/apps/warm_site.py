"""A Flask site with a store: a file, or Redis, as ``SITE_STORE`` says."""

from __future__ import annotations

import os
from typing import Any

from flask import Flask, request
from shipsilently_flask import ShipSilently, flags

from shipsilently_core.stores_redis import RedisStore
from tests.servers.apps.answer import answer, hold

place = os.environ["SITE_STORE"]
app = Flask(__name__)
app.config["SHIPSILENTLY"] = {
    # A busy machine may not answer within the default.
    "STORE": RedisStore(place, deadline=2.0) if "://" in place else place,
    "RETRY": {"BASE_DELAY": 0.2, "MAX_DELAY": 1.0},
}
ShipSilently(app, context_loader=lambda: {"userId": request.args["user"]})
client = app.extensions["shipsilently"].client


@app.get("/ping")
def ping() -> dict[str, Any]:
    """Read no flag."""
    return {}


@app.get("/flags")
def show() -> dict[str, Any]:
    """Read flags."""
    hold(request.args.get("hold", ""))
    return answer(client, flags)


@app.get("/store")
def store() -> dict[str, Any]:
    """How it goes with this worker's store and service, and where a flag comes from."""
    hold(request.args.get("hold", ""))
    status = client.status()
    detail = flags.detail("who", "nobody")
    return {
        "pid": os.getpid(),
        "gate": status.gate,
        "error": None if status.store is None else status.store.error,
        "source": detail.source,
        "age": detail.age,
    }
