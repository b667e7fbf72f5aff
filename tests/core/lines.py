"""Every way to carry out one call: own connections or a client of one's own, plain or awaited."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import httpx2

from shipsilently_core import Config, Context
from shipsilently_core._http import HttpTransport
from shipsilently_core._wire import Reply, Request, batch_request
from tests.core.support import KEY

__all__ = ["ASK", "OWN", "WAYS", "Send", "line"]

OWN = ("plain", "awaited")
CUSTOM = ("httpx", "httpx2", "httpx awaited", "httpx2 awaited")
WAYS = (*OWN, *CUSTOM)
MODULES: dict[str, Any] = {"httpx": httpx, "httpx2": httpx2}

#: Clients of one's own take long to make, nearly all of it for this.
_CONTEXT = ssl.create_default_context()

ASK = batch_request(Context(user_id="u1"))

Send = Callable[[Request], Reply]


@contextmanager
def line(
    way: str, url: str, *, client: dict[str, Any] | None = None, **settings: Any
) -> Iterator[Send]:
    """A function that carries out one call this way; awaited ones share one event loop.

    Args:
        way: One of `WAYS`.
        url: The service's address.
        client: Arguments for the client of one's own.
        settings: For the configuration.
    """
    with ExitStack() as stack:
        words = way.split()
        if words[0] in MODULES:
            made = MODULES[words[0]].Client(**{"verify": _CONTEXT} | (client or {}))
            settings["http_client"] = stack.enter_context(made)
        transport = HttpTransport(Config(**{"api_key": KEY, "api_url": url, **settings}))
        if "awaited" in words:
            runner = stack.enter_context(asyncio.Runner())
            try:
                yield lambda request: runner.run(transport.asend(request))
            finally:
                runner.run(transport.aclose())
        else:
            try:
                yield transport.send
            finally:
                transport.close()
