"""A process that may open no more files when its first flag is read: sockets, modules, nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from shipsilently_local import LocalService
from tests.servers.harness import run_script

pytestmark = pytest.mark.timeout(60)

BEGIN = """
import asyncio, os, resource, sys, time

held = []

def exhaust():
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    try:
        while True:
            held.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        pass

def release():
    while held:
        os.close(held.pop())

def follow(read):
    exhaust()
    found = [read(number) for number in range(3)]
    release()
    print(*found, flush=True)
    end = time.monotonic() + 10
    while read(3) != "real" and time.monotonic() < end:
        time.sleep(0.05)
    print(read(3), flush=True)

async def afollow(read):
    exhaust()
    found = [await read(number) for number in range(3)]
    release()
    print(*found, flush=True)
    end = time.monotonic() + 10
    while await read(3) != "real" and time.monotonic() < end:
        await asyncio.sleep(0.05)
    print(await read(3), flush=True)
"""

CORE = """
from shipsilently_core import ShipSilentlyClient
client = ShipSilentlyClient(
    api_key=os.environ["SHIPSILENTLY_API_KEY"],
    api_url=os.environ["SHIPSILENTLY_API_URL"],
    retry={"base_delay": 0.05, "max_delay": 0.1},
    background={background},
)
"""

CASES = {
    "core": CORE.replace("{background}", "True")
    + 'follow(lambda number: client.flags(user_id=f"u{number}").get("shown", "default"))',
    "core without a background": CORE.replace("{background}", "False")
    + 'follow(lambda number: client.flags(user_id=f"u{number}").get("shown", "default"))',
    "core, one flag": CORE.replace("{background}", "True")
    + 'follow(lambda number: client.evaluate("shown", {"userId": f"u{number}"}, "default"))',
    "core, long context": CORE.replace("{background}", "True")
    + 'follow(lambda number: client.flags(user_id="u" * 2_000).get("shown", "default"))',
    "core, in tasks": CORE.replace("{background}", "True")
    + """
async def read(number):
    return await client.flags(user_id=f"u{number}").aget("shown", "default")

asyncio.run(afollow(read))
""",
    "core, started": CORE.replace("{background}", "True")
    + """
exhaust()
client.start()
follow(lambda number: client.flags(user_id=f"u{number}").get("shown", "default"))
""",
    "Django": """
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.servers.apps.django_settings"
import django
django.setup()
from django.core.handlers.wsgi import WSGIHandler
from django.http import HttpResponse
from django.test import RequestFactory
from django.urls import path
import tests.servers.apps.django_urls as urls
urls.urlpatterns += [
    path("shown", lambda request: HttpResponse(request.flags.get("shown", "default"))),
    path("none", lambda request: HttpResponse("")),
]
handler = WSGIHandler()

def get(at):
    return handler.get_response(RequestFactory().get(at, headers={"host": "127.0.0.1"}))

assert get("/none").status_code == 200
follow(lambda number: get("/shown").content.decode())
""",
    "Flask": """
from flask import Flask
from shipsilently_flask import ShipSilently, flags
app = Flask("site")
app.secret_key = "for these tests"
app.config["PROPAGATE_EXCEPTIONS"] = True
ShipSilently(app, anonymous_id="cookie")
app.add_url_rule("/shown", "shown", lambda: flags.get("shown", "default"))
app.add_url_rule("/none", "none", lambda: "")
client = app.test_client()
assert client.get("/none").status_code == 200
follow(lambda number: client.get("/shown").text)
""",
    "FastAPI": """
from fastapi import FastAPI
from fastapi.responses import PlainTextResponse
from shipsilently_fastapi import FlagsDep, ShipSilently
shipsilently = ShipSilently(context=lambda connection: {"userId": connection.headers["x-user"]})
app = FastAPI(lifespan=shipsilently.lifespan)

@app.get("/shown", response_class=PlainTextResponse)
async def shown(flags: FlagsDep):
    return flags.get("shown", "default")

@app.get("/none")
async def none():
    return ""

async def get(path, user=""):
    sent = []
    async def receive():
        return {"type": "http.request", "body": b""}
    async def send(message):
        sent.append(message)
    scope = {
        "type": "http", "method": "GET", "path": path, "query_string": b"", "root_path": "",
        "headers": [(b"x-user", user.encode())], "scheme": "http", "http_version": "1.1",
    }
    await app(scope, receive, send)
    assert sent[0]["status"] == 200
    return sent[1]["body"].decode()

async def main():
    await get("/none")
    await afollow(lambda number: get("/shown", f"u{number}"))

import logging
logging.getLogger("shipsilently").addFilter(lambda record: "no lifespan" not in record.msg)
asyncio.run(main())
""",
}


@pytest.mark.parametrize("case", CASES)
def test_a_process_without_files_serves_defaults_and_then_the_flags(
    case: str, tmp_path: Path
) -> None:
    """Nothing raises though nothing can be imported, and all is well once there are files again."""
    with LocalService({"shown": "real"}) as service:
        ended = run_script(BEGIN + CASES[case], tmp_path, service)
    assert ended.status == 0, ended
    assert ended.lines == ["default default default", "real"], ended
    assert "Traceback" not in ended.errors
    assert "OSError" in ended.errors, "the log says what is wrong"
