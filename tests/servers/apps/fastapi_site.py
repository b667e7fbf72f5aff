"""A FastAPI site."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Query
from shipsilently_fastapi import FlagsDep, ShipSilently

from tests.servers.apps.answer import answer, hold, set_up

shipsilently = ShipSilently(context=lambda connection: {"userId": connection.query_params["user"]})
app = FastAPI()
shipsilently.install(app)
set_up(shipsilently.client)


@app.get("/ping")
async def ping() -> dict[str, Any]:
    """Read no flag."""
    return {}


@app.get("/flags")
async def show(flags: FlagsDep, busy: str = Query("", alias="hold")) -> dict[str, Any]:
    """Read flags. To be busy keeps the whole event loop from accepting."""
    hold(busy)
    return answer(shipsilently.client, flags)
