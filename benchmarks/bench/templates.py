"""One flag in a template, over plain text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.frameworks import CLIENT, EXTENSION

from .outcome import Figure, Goal, Outcome, Settings
from .timing import Work, added, median, repeated, take_turns

PLAIN = "Some text of a page.{}And some more of it."
FLAG = "flag-0"


def run(settings: Settings) -> Outcome:
    """Measure."""
    CLIENT.evaluate_all()
    rows: list[Figure] = []
    goals: list[Goal] = []
    engines = {"Django": django, "Flask": flask, "FastAPI": fastapi}
    for engine, make in engines.items():
        works, leave = make()
        figures = take_turns(works, settings, most=20_000)
        leave()
        plain = figures.pop("plain")
        rows.append(Figure(f"{engine}, plain text", median(plain) * 1e6, "µs", None, "the whole"))
        costs = {name: added(took, plain) * 1e6 for name, took in figures.items()}
        for name, cost in costs.items():
            rows.append(Figure(f"{engine}, {name}", cost, "µs", None, "added"))
        if engine == "Django":
            goals.append(Goal("Django: a flag ≤ 0.8 µs added", costs[TAG], 0.8))
        else:
            floor = (
                f"a test of two names: {costs[COMPARED] / costs[IF]:.1f}, "
                f"a call: {costs[CALLED] / costs[IF]:.1f}"
            )
            share = costs[TAG] / costs[IF]
            goals.append(
                Goal(f"{engine}: a flag ≤ 1.2 × a plain {{% if %}}", share, 1.2, note=floor)
            )
    return Outcome(rows, goals)


TAG = '{% flag "x" %}'
IF = "{% if x %}"
CALL = '{% if flag("x") %}'
CALLED = '{% if f("x") %}'
NAME = "{{ x }}"
COMPARED = "{% if x is eq y %}"


def django() -> tuple[dict[str, Work], Callable[[], object]]:
    """Django's engine; the request has read the flag before."""
    import django
    from django.conf import settings as configured
    from django.http import HttpResponse
    from django.template import Context, Engine
    from django.test import RequestFactory
    from django.urls import ResolverMatch
    from shipsilently_django import FlagsMiddleware

    configured.configure(
        ALLOWED_HOSTS=["testserver"],
        INSTALLED_APPS=["shipsilently_django"],
        SHIPSILENTLY={"CLIENT": CLIENT},
    )
    django.setup()
    request: Any = RequestFactory().get("/")
    # As every request has that a view renders a page for.
    request.resolver_match = ResolverMatch(lambda request: HttpResponse(""), (), {})
    FlagsMiddleware(lambda request: HttpResponse(""))(request)
    assert request.flags.get(FLAG, False) is True
    # Once in a page stands `load`, or never: here it is no part of what one flag costs.
    engine = Engine(builtins=["shipsilently_django.templatetags.shipsilently"])
    sources = {
        "plain": PLAIN.format(" "),
        TAG: PLAIN.format(f'{{% flag "{FLAG}" %}} {{% endflag %}}'),
        IF: PLAIN.format("{% if x %} {% endif %}"),
        NAME: PLAIN.format("{{ x }}"),
    }
    context = Context({"request": request, "x": True})
    works: dict[str, Work] = {}
    for name, source in sources.items():
        template = engine.from_string(source)
        template.render(context)
        works[name] = repeated("render(context)", {"render": template.render, "context": context})
    return works, lambda: None


def flask() -> tuple[dict[str, Work], Callable[[], object]]:
    """Jinja in Flask, within one request."""
    from flask import Flask
    from shipsilently_flask import ShipSilently, flags

    app = Flask(__name__)
    ShipSilently(app, client=CLIENT)
    within = app.test_request_context()
    within.push()
    assert flags.get(FLAG, False) is True
    return _jinja(app.jinja_env, {"x": True, "y": True}), within.pop


def fastapi() -> tuple[dict[str, Work], Callable[[], object]]:
    """Jinja in Starlette, within one request."""
    from jinja2 import DictLoader, Environment
    from shipsilently_fastapi import get_flags
    from shipsilently_fastapi.lifespan import STATE
    from shipsilently_fastapi.templating import add_flags
    from starlette.requests import Request
    from starlette.templating import Jinja2Templates

    templates = Jinja2Templates(env=Environment(loader=DictLoader({}), autoescape=True))
    add_flags(templates)
    scope = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}
    request = Request({**scope, "state": {STATE: EXTENSION}})
    assert get_flags(request).get(FLAG, False) is True
    return _jinja(templates.env, {"request": request, "x": True, "y": True}), lambda: None


def _jinja(environment: Any, context: dict[str, Any]) -> dict[str, Work]:
    sources = {
        "plain": PLAIN.format(" "),
        TAG: PLAIN.format(f'{{% flag "{FLAG}" %}} {{% endflag %}}'),
        IF: PLAIN.format("{% if x %} {% endif %}"),
        CALL: PLAIN.format(f'{{% if flag("{FLAG}") %}} {{% endif %}}'),
        CALLED: PLAIN.format('{% if f("x") %} {% endif %}'),
        COMPARED: PLAIN.format("{% if x is eq y %} {% endif %}"),
        NAME: PLAIN.format("{{ x }}"),
    }
    environment.globals["f"] = {"x": True}.get
    works: dict[str, Work] = {}
    for name, source in sources.items():
        template = environment.from_string(source)
        template.render(context)
        works[name] = repeated("render(context)", {"render": template.render, "context": context})
    return works
