"""The example sites as they would be if nobody had installed flags: same pages, same text.

Each page is the example's own template with its flags taken out, so that both send the same
number of bytes. Those called ``noting`` read as many flags as the example, for the same visitor,
of the least that flags can be. For a server: ``benchmarks.bench.plain_sites:flask_app`` and so on.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from .least import ASGILeast, Noting

__all__ = [
    "django_app",
    "django_noting_app",
    "fastapi_app",
    "fastapi_asking_app",
    "fastapi_noting_app",
    "flask_app",
    "flask_noting_app",
]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

_ENDED = (r"{% endflag %}", "{% endif %}")
_TAKEN_OUT = (
    (r"{% load shipsilently %}", ""),
    (r'{% flag_value "banner" default="grey" as banner %}', ""),
    (r'{% flag "[\w-]+" %}', "{% if switched %}"),
    (r'{% set banner = flag\("banner", default="blue"\) %}', '{% set banner = "blue" %}'),
    _ENDED,
)
#: What asks the least that flags can be, in Jinja.
_NOTED_IN_JINJA = (
    (r'{% flag ("[\w-]+") %}', r"{% if \1 is noted %}"),
    (r'{% set banner = flag\("banner", default="blue"\) %}', '{% set banner = noted("banner") %}'),
    _ENDED,
)
#: The same in Django.
_NOTED_IN_DJANGO = (
    (r"{% load shipsilently %}", "{% load noted %}"),
    (r'{% flag_value "banner" default="grey" as banner %}', '{% noted "banner" as banner %}'),
    (r'{% flag ("[\w-]+") %}', r"{% noted \1 as switched %}{% if switched %}"),
    _ENDED,
)

DETAIL = {
    "flag_key": "new-checkout",
    "value": False,
    "reason": "default",
    "source": "cache",
    "rule_id": None,
}

#: What every visitor gets, and so what a read falls back to.
SHOWN: dict[str, Any] = {"new-checkout": False, "banner": "blue"}

#: The visitor's flags, where templates ask them.
_noting: ContextVar[Noting] = ContextVar("noting")


def noting_of(who: str) -> Noting:
    """A visitor's flags."""
    Noting.users.setdefault(who, (1, SHOWN))
    flags = Noting(who)
    _noting.set(flags)
    return flags


def noted(key: str) -> Any:
    """What a template reads: a test, a function and a tag."""
    return _noting.get().get(key, SHOWN[key])


def pages(folder: Path, changes: tuple[tuple[str, str], ...] = _TAKEN_OUT) -> Path:
    """A folder with the templates of this one, with their flags taken out or replaced.

    Files, as there: frameworks that look whether one has changed are to do so in both.
    """
    found = Path(tempfile.mkdtemp(prefix="plain-site-"))
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for pattern, instead in changes:
            text = re.sub(pattern, instead, text)
        copy = found / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    return found


def flask_app(*, noting: bool = False) -> Any:
    """The Flask example without flags."""
    from flask import Blueprint, Flask, g, make_response, render_template, request
    from flask_login import LoginManager, current_user  # type: ignore[import-untyped]

    found = pages(EXAMPLES / "flask" / "templates", _NOTED_IN_JINJA if noting else _TAKEN_OUT)
    app = Flask("plain_flask", template_folder=str(found))
    app.jinja_env.tests["noted"] = app.jinja_env.globals["noted"] = noted
    app.config["SESSION_COOKIE_NAME"] = "flask_shop"
    app.secret_key = "bench"
    people = {"ada": 1, "bob": 2}
    manager = LoginManager()
    manager.user_loader(people.get)
    manager.init_app(app)
    shop, beta = Blueprint("shop", "shop"), Blueprint("beta", "beta", url_prefix="/beta")

    def home() -> str:
        return render_template("home.html", people=people, checkout=DETAIL, switched=False)

    def home_noting() -> Any:
        # Each visitor has a cookie, as in the example.
        who = current_user.get_id() if current_user.is_authenticated else None
        if who is None:
            who = request.cookies.get("visitor")
        g.noting = noting_of(who or "new")
        g.noting.get("new-checkout", False)
        response = make_response(home())
        if who is None:
            response.set_cookie("visitor", "one who comes again")
        return response

    def nothing() -> str:
        return ""

    shop.add_url_rule("/", "home", home_noting if noting else home)
    shop.add_url_rule("/login", "login", nothing, methods=["POST"])
    shop.add_url_rule("/logout", "logout", nothing, methods=["POST"])
    beta.add_url_rule("/gifts", "gifts", nothing)
    beta.add_url_rule("/gifts/labels", "labels", nothing)
    app.register_blueprint(shop)
    app.register_blueprint(beta)
    return app


def flask_noting_app() -> Any:
    """The same, with the least that its flags can be."""
    return flask_app(noting=True)


def fastapi_app(*, asking: bool = False, noting: bool = False) -> Any:
    """The FastAPI example without flags."""
    from fastapi import Depends, FastAPI, Request
    from fastapi.responses import HTMLResponse
    from fastapi.templating import Jinja2Templates
    from starlette.middleware.sessions import SessionMiddleware

    app = FastAPI(title="A small shop")
    app.add_middleware(SessionMiddleware, secret_key="bench")
    found = pages(EXAMPLES / "fastapi" / "templates", _NOTED_IN_JINJA if noting else _TAKEN_OUT)
    templates = Jinja2Templates(found)
    templates.env.tests["noted"] = templates.env.globals["noted"] = noted
    plans = {"ada": "pro", "bob": "free"}

    async def current_user(request: Any) -> str | None:
        name = request.session.get("user")
        return name if name in plans else None

    current_user.__annotations__["request"] = Request

    async def home(request: Any, user: Any) -> Any:
        context = {
            "user": user,
            "plan": plans.get(user or ""),
            "people": plans,
            "checkout": DETAIL,
            "look": {"banner": "blue"},
            "switched": False,
        }
        return templates.TemplateResponse(request, "home.html", context)

    home.__annotations__.update({"request": Request, "return": HTMLResponse})
    home.__defaults__ = (Depends(current_user),)
    if asking or noting:

        async def nothing() -> None:
            return None

        async def of_visitor(request: Any) -> Any:
            return noting_of(await current_user(request) or "anonymous")

        of_visitor.__annotations__["request"] = Request

        async def home_of_two(request: Any, user: Any, found: Any) -> Any:
            if found is not None:
                # As the example's page reads by itself: one with its reason, and one of a class.
                found.get("new-checkout", False)
                found.get("banner", "blue")
            return await home(request, user)

        home_of_two.__annotations__.update({"request": Request, "return": HTMLResponse})
        home_of_two.__defaults__ = (
            Depends(current_user),
            Depends(of_visitor if noting else nothing),
        )
        if noting:
            app.add_middleware(ASGILeast)
        app.get("/", response_class=HTMLResponse)(home_of_two)
        return app
    app.get("/", response_class=HTMLResponse)(home)
    return app


def fastapi_asking_app() -> Any:
    """The same, and its page has one more dependency, which does nothing."""
    return fastapi_app(asking=True)


def fastapi_noting_app() -> Any:
    """The same, with the least that its flags can be."""
    return fastapi_app(noting=True)


urlpatterns: list[Any] = []


def django_app(*, noting: bool = False) -> Any:
    """The Django example without flags, for WSGI."""
    import importlib

    import django
    from django.conf import settings as configured

    folder = EXAMPLES / "django"
    sys.path.insert(0, str(folder))
    os.environ["DEBUG"] = "0"
    given = importlib.import_module("shop.settings")
    settings = {name: getattr(given, name) for name in dir(given) if name.isupper()}
    settings.pop("SHIPSILENTLY")
    settings["ROOT_URLCONF"] = __name__
    settings["INSTALLED_APPS"] = [
        name for name in settings["INSTALLED_APPS"] if name not in ("shipsilently_django", "shop")
    ]
    settings["MIDDLEWARE"] = [name for name in settings["MIDDLEWARE"] if "shipsilently" not in name]
    found = pages(folder / "shop" / "templates", _NOTED_IN_DJANGO if noting else _TAKEN_OUT)
    settings["TEMPLATES"][0]["DIRS"] = [found]
    if noting:
        settings["TEMPLATES"][0]["OPTIONS"]["libraries"] = {"noted": f"{__package__}.noted_tag"}
        settings["MIDDLEWARE"].append(f"{__package__}.least.DjangoLeast")
    configured.configure(**settings)
    django.setup()
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpRequest, HttpResponse
    from django.shortcuts import render
    from django.urls import path

    def home(request: HttpRequest) -> HttpResponse:
        context = {"detail": DETAIL, "banner": "blue", "switched": False}
        if noting:
            user = request.user  # type: ignore[attr-defined]
            who = user.get_username() if user.is_authenticated else "anonymous"
            noting_of(who).get("new-checkout", False)
        return render(request, "shop/home.html", context)

    def nothing(request: HttpRequest) -> HttpResponse:
        return HttpResponse("")

    urlpatterns.append(path("", home, name="home"))
    urlpatterns.extend(
        path(f"{name}/", nothing, name=name) for name in ("login", "logout", "delivery", "flags")
    )
    return get_wsgi_application()


def django_noting_app() -> Any:
    """The same, with the least that its flags can be."""
    return django_app(noting=True)
