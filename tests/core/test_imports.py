"""What a process imports, and does not: what few need is imported when it is needed."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from tests.core.wire_server import Answer, WireServer, batch_of

FRAMEWORKS = {
    "shipsilently_django": """
from django.conf import settings
settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"])
import django
django.setup()
""",
    "shipsilently_flask": "import flask",
    # Whoever serves it has imported asyncio.
    "shipsilently_fastapi": "import asyncio, fastapi",
}
#: What comes with a store, with a stream, with a proxy, with tasks, or on a page of its own.
OWN = [
    "_background",
    "_cachestore",
    "_connection",
    "_consult",
    "_holdings",
    "_http",
    "_keeper",
    "_network",
    "_proxied",
    "_refresh",
    "_saved",
    "_shipped",
    "_sse",
    "_storecalls",
    "_stream",
    "_tasks",
    "_transport",
    "pytest_plugin",
    "stores",
    "stores_redis",
    "testing",
]
FOREIGN = [
    "anyio",
    "asyncio",
    "certifi",
    "dataclasses",
    "email.utils",
    "h11",
    "h2",
    "httpcore",
    "httpx",
    "platformdirs",
    "redis",
    "ssl",
    "urllib.request",
]

CLIENT = """
from shipsilently_core import ShipSilentlyClient
client = ShipSilentlyClient(api_key="sk_test", api_url={url!r}, timeout=5, background=False)
"""


def imported(before: str, then: str, names: Sequence[str]) -> list[str]:
    """Those of the modules that `then` imports, in a process that has done what comes before."""
    code = f"""
{before}
import json, sys
before = set(sys.modules)
{then}
print(json.dumps(sorted(({set(names)!r} & sys.modules.keys()) - before)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("package", FRAMEWORKS)
def test_an_integration_imports_no_more_than_every_request_needs(package: str) -> None:
    """An integration and a client bring nothing along that some processes never use."""
    own = [f"shipsilently_core.{name}" for name in OWN]
    then = f"import {package}" + CLIENT.format(url="http://127.0.0.1:9")
    assert imported(FRAMEWORKS[package], then, own + FOREIGN) == []


def test_calls_need_neither_asyncio_nor_httpcore(server: WireServer) -> None:
    """A process of threads without a proxy asks the service by h11 alone, and listens so too."""
    server.always(
        batch_of({"a": True}),
        Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n:\n\n"),
    )
    then = f"""
{CLIENT.format(url=server.url)}
assert client.evaluate_all()["a"].value is True
opened = client._sender().open_stream("ticket")
assert opened.read(5) == b":\\n\\n"
opened.close()
client.close()
"""
    names = ["h11", "anyio", "asyncio", "certifi", "httpcore", "httpx", "shipsilently_core._tasks"]
    assert imported("", then, names) == ["h11"]


@pytest.mark.parametrize("package", ["shipsilently_core", *FRAMEWORKS])
def test_what_is_imported_when_it_is_asked_for_is_listed_like_the_rest(package: str) -> None:
    """Each such name is exported, can be asked for again and again, and others are refused."""
    module = importlib.import_module(package)
    late = set(module._ASKED_FOR)
    assert late
    assert late <= set(module.__all__) <= set(dir(module))
    for name in late:
        assert getattr(module, name) is getattr(module, name)
        assert getattr(module, name).__module__.startswith("shipsilently_")
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'flog'"):
        _ = module.flog
