"""Run inside an environment with the wheel and one extra: does that work, and nothing else come?

``python probe.py {core,django,flask,fastapi}``, in an empty folder. Uses only what is installed
there.
"""

import asyncio
import importlib
import importlib.metadata
import importlib.resources
import importlib.util
import json
import logging
import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

FRAMEWORKS = ("django", "flask", "fastapi")
#: What each extra may bring; whatever else of these is imported or installed is a fault.
OPTIONAL = {
    "django": {"django"},
    "flask": {"flask", "click", "werkzeug", "jinja2"},
    "fastapi": {"fastapi", "starlette", "pydantic", "opentelemetry"},
}
OTHERS = {"rich", "uvicorn", "watchfiles", "yaml", "redis", "pytest", "opentelemetry", "structlog"}
PACKAGES = ("core", "local", "cli", "django", "flask", "fastapi")


class Service(BaseHTTPRequestHandler):
    """Answers each batch with one flag, which says whom it was evaluated for."""

    def do_POST(self) -> None:
        """Answer one call."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or b"{}")
        who = body.get("context", {}).get("userId")
        row = {"flagKey": "who", "value": f"for {who}", "reason": "rule_match"}
        known = self.path == "/v1/evaluate/batch"
        answer = json.dumps({"flags": {"who": row}}).encode()
        self.send_response(200 if known else 402)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def core() -> str:
    """A flag, from a client alone."""
    from shipsilently_core import ShipSilentlyClient

    client = ShipSilentlyClient()
    value = client.flags({"userId": "ada"}).get("who", "the default")
    client.close()
    return value


def django() -> str:
    """A flag in a template, from a view of Django."""
    import django
    from django.conf import settings
    from django.http import HttpRequest, HttpResponse
    from django.template import engines
    from django.urls import path

    def view(request: HttpRequest) -> HttpResponse:
        page = engines["django"].from_string("{% load shipsilently %}{% flag_value 'who' '' %}")
        return HttpResponse(page.render({}, request))

    urls = type(sys)("urls")
    urls.urlpatterns = [path("", view)]
    settings.configure(
        ALLOWED_HOSTS=["testserver"],
        INSTALLED_APPS=["shipsilently_django"],
        MIDDLEWARE=["shipsilently_django.FlagsMiddleware"],
        ROOT_URLCONF=urls,
        SHIPSILENTLY={"CONTEXT": lambda request: {"userId": "ada"}},
        TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    )
    django.setup()
    from django.core.management import call_command
    from django.test import Client

    call_command("check", fail_level="WARNING")
    return Client().get("/").content.decode()


def flask() -> str:
    """A flag in a template, from a view of Flask."""
    from flask import Flask, render_template_string
    from shipsilently_flask import ShipSilently

    app = Flask("probe")
    ShipSilently(app, context_loader=lambda: {"userId": "ada"})

    @app.get("/")
    def page() -> str:
        return render_template_string("{{ flag('who', '') }}")

    return app.test_client().get("/").text


def fastapi() -> str:
    """A flag in an endpoint of FastAPI."""
    import httpx
    from fastapi import FastAPI
    from shipsilently_fastapi import FlagsDep, ShipSilently

    shipsilently = ShipSilently(context=lambda connection: {"userId": "ada"})
    app = FastAPI(lifespan=shipsilently.lifespan)

    @app.get("/")
    async def page(flags: FlagsDep) -> str:
        return flags.get("who", "the default")

    async def ask() -> str:
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://testserver") as client,
        ):
            answer: str = (await client.get("/")).json()
            return answer

    return asyncio.run(ask())


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """What the command that came with the wheel does."""
    script = os.path.join(sysconfig.get_path("scripts"), "shipsilently")
    return subprocess.run([script, *words], capture_output=True, text=True, timeout=60)


def check_environment(what: str) -> None:
    """The distribution is whole, and of what is optional only that of the extra is there."""
    expected = importlib.metadata.version("shipsilently")
    assert importlib.import_module("shipsilently_core").__version__ == expected
    for package in PACKAGES:
        found = importlib.util.find_spec(f"shipsilently_{package}")
        assert found is not None, package
        assert found.origin is not None
        assert found.origin.startswith(sysconfig.get_path("purelib")), found.origin
        assert os.path.exists(os.path.join(os.path.dirname(found.origin), "py.typed")), package
    foreign = (set().union(*OPTIONAL.values()) | OTHERS) - OPTIONAL.get(what, set())
    there = {name for name in foreign if importlib.util.find_spec(name) is not None}
    assert not there, f"installed as well: {there}"


def check_imports(what: str) -> None:
    """Nothing that is optional was imported, but what the extra is for."""
    own = OPTIONAL.get(what, set())
    imported = {name.partition(".")[0] for name in sys.modules}
    foreign = imported & ((set().union(*OPTIONAL.values()) | OTHERS) - own)
    assert not foreign, f"imported as well: {foreign}"
    others = {f"shipsilently_{name}" for name in PACKAGES} - {f"shipsilently_{what}"}
    others -= {"shipsilently_core"}
    # Django and Flask have commands of their own that need this one.
    assert not imported & others - {"shipsilently_cli"}, imported & others


def check_missing(what: str) -> None:
    """What is not installed is named by the error that its integration raises."""
    for other in set(FRAMEWORKS) - {what}:
        try:
            importlib.import_module(f"shipsilently_{other}")
        except ModuleNotFoundError as error:
            # FastAPI's lower half comes first.
            missing = str(error.name)
        else:
            raise AssertionError(f"shipsilently_{other} was imported without its framework")
        assert missing.partition(".")[0] in OPTIONAL[other], missing


def check_command(what: str) -> None:
    """Without click the command says in one line what to install; with it there is its help."""
    ran = command("--help")
    assert "Traceback" not in ran.stderr, ran.stderr
    if what == "flask":  # which brings click along
        assert ran.returncode == 0, ran.stderr
        assert "doctor" in ran.stdout
        return
    assert ran.returncode == 1
    assert ran.stdout == ""
    expected = "shipsilently needs click: install it with  pip install 'shipsilently[cli]'"
    assert ran.stderr.strip() == expected, ran.stderr


def main() -> None:
    """Serve a flag on the loopback interface, read it, and look at what came along."""
    (what,) = sys.argv[1:]
    probes: dict[str, Callable[[], str]] = {
        "core": core,
        "django": django,
        "flask": flask,
        "fastapi": fastapi,
    }
    check_environment(what)
    logging.disable(logging.CRITICAL)  # the service here has no streaming
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["SHIPSILENTLY_API_URL"] = f"http://127.0.0.1:{server.server_port}"
    os.environ["SHIPSILENTLY_API_KEY"] = "sk_test"
    said = probes[what]()
    assert said == "for ada", f"the flag says {said!r}"
    check_imports(what)
    check_missing(what)
    check_command(what)


if __name__ == "__main__":
    main()
