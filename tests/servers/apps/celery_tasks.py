"""A Celery app whose broker is a folder."""

from __future__ import annotations

import json
import os
import uuid
from pathlib import Path

from celery import Celery  # type: ignore[import-untyped]  # it has no types
from celery.signals import worker_process_shutdown  # type: ignore[import-untyped]  # likewise

from shipsilently_core import ShipSilentlyClient
from tests.servers.apps.answer import answer, hold, set_up

folder = Path(os.environ["CELERY_FOLDER"])
# The broker takes a file that is there, also one that is still being written, and that task is
# lost. So they are written beside the queue, and whoever sends them moves them there.
sent, queue, results = folder / "sent", folder / "queue", folder / "results"
for each in (sent, queue, results):
    each.mkdir(exist_ok=True)

app = Celery("site", broker="filesystem://")
app.conf.update(
    broker_transport_options={
        "data_folder_in": str(queue),
        "data_folder_out": str(sent),
        "control_folder": str(folder / "control"),
        "polling_interval": 0.05,
    },
    task_ignore_result=True,
    worker_prefetch_multiplier=0,  # else the broker waits a second after each task
)
client = ShipSilentlyClient()
set_up(client)


@worker_process_shutdown.connect
def close(**_: object) -> None:
    """A child of the pool ends without Python's exit hooks."""
    client.close()


@app.task
def show(user: str) -> None:
    """Write down what a site would answer this user."""
    hold("0.02")
    found = {"user": user, **answer(client, client.flags({"userId": user}))}
    written = results / f".{uuid.uuid4()}"
    written.write_text(json.dumps(found), encoding="utf-8")
    written.rename(results / f"{uuid.uuid4()}.json")
