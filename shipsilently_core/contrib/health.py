"""What a health check answers; the frameworks' packages put it on a page.

It only looks: no request to the service, no thread started by asking.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from shipsilently_core.client import ShipSilentlyClient

__all__ = ["UNAVAILABLE", "Serving", "health"]

#: The HTTP status where only defaults are left, unless another one is chosen.
UNAVAILABLE = 503


class Serving(StrEnum):
    """What requests are served at present."""

    #: Values of the service, current or last known good.
    VALUES = "values"
    #: Nothing is known but what was shipped with the app (``bootstrap=``).
    BOOTSTRAP = "bootstrap"
    #: No request has read a flag in this process yet.
    NOTHING_YET = "nothing_yet"
    #: Defaults only: nothing is known, and asking has failed or is not possible.
    DEFAULTS = "defaults"


def health(
    client: ShipSilentlyClient, *, unavailable: int = UNAVAILABLE, **more: object
) -> tuple[int, bytes]:
    """The HTTP status and the JSON body of a health check.

    Args:
        client: Whose health.
        unavailable: The HTTP status where only defaults are left. A process that has not
            been asked for a flag yet is healthy: if it were not, it might never be asked.
        more: Further fields of the body.
    """
    status = client.status()
    if status.contexts:
        serving = Serving.VALUES
    elif status.attempts or client.evaluator.closed:
        shipped = client.config.bootstrap is not None
        serving = Serving.BOOTSTRAP if shipped else Serving.DEFAULTS
    else:
        serving = Serving.NOTHING_YET
    body = {"serving": serving, **msgspec.to_builtins(status, str_keys=True), **more}
    return unavailable if serving is Serving.DEFAULTS else 200, msgspec.json.encode(body)
