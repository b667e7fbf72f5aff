"""What every site of these tests answers, whatever its framework."""

from __future__ import annotations

import importlib
import os
import time
from typing import Any

from shipsilently_core import Flags, ShipSilentlyClient

__all__ = ["answer", "hold", "set_up"]


def answer(client: ShipSilentlyClient, flags: Flags | Any) -> dict[str, Any]:
    """Which process this is, whom it takes the visitor for, and which version it serves."""
    return {
        "pid": os.getpid(),
        "who": flags.get("who", "nobody"),
        "version": flags.get("version", 0),
        "state": str(client.connection_state),
    }


def hold(seconds: str) -> None:
    """Keep this worker busy, so that the next request finds another one."""
    if seconds:
        time.sleep(float(seconds))


def set_up(client: ShipSilentlyClient) -> None:
    """What a test wants to happen while the site is imported, said in the environment."""
    if name := os.environ.get("ALSO_IMPORT"):
        importlib.import_module(name)
    use = os.environ.get("USE_AT_IMPORT")
    if use == "start":
        client.wait_ready(10)
    if use:
        client.evaluate_all({"userId": "importer"})
