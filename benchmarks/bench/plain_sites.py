"""The example sites as they would be if nobody had installed flags: same pages, same text.

Each page is the example's own template with its flags taken out, so that both send the same
number of bytes. For a server: ``benchmarks.bench.plain_sites:flask_app`` and so on.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

__all__ = [
    "django_app",
    "fastapi_app",
    "fastapi_asking_app",
    "flask_app",
]

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

_TAKEN_OUT = (
    (r"{% load shipsilently %}", ""),
    (r'{% flag_value "banner" default="grey" as banner %}', ""),
    (r'{% flag "[\w-]+" %}', "{% if switched %}"),
    (r"{% endflag %}", "{% endif %}"),
    (r'{% set banner = flag\("banner", default="blue"\) %}', '{% set banner = "blue" %}'),
)

DETAIL = {
    "flag_key": "new-checkout",
    "value": False,
    "reason": "default",
    "source": "cache",
    "rule_id": None,
}


def pages(folder: Path) -> Path:
    """A folder with the templates of this one, with their flags taken out.

    Files, as there: frameworks that look whether one has changed are to do so in both.
    """
    found = Path(tempfile.mkdtemp(prefix="plain-site-"))
    atexit.register(shutil.rmtree, found, ignore_errors=True)
    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for pattern, instead in _TAKEN_OUT:
            text = re.sub(pattern, instead, text)
        copy = found / path.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    return found


def flask_app() -> Any:
    """The Flask example without flags."""
    from flask import Blueprint, Flask, render_template
    from flask_login import LoginManager  # type: ignore[import-untyped]

    app = Flask("plain_flask", template_folder=str(pages(EXAMPLES / "flask" / "templates")))
    app.config["SESSION_COOKIE_NAME"] = "flask_shop"
    app.secret_key = "bench"
    people = {"ada": 1, "bob": 2}
    manager = LoginManager()
    manager.user_loader(people.get)
    manager.init_app(app)
    shop, beta = Blueprint("shop", "shop"), Blueprint("beta", "beta", url_prefix="/beta")

    def home() -> str:
        return render_template("home.html", people=people, checkout=DETAIL, switched=False)

    def nothing() -> str:
        return ""

    shop.add_url_rule("/", "home", home)
    shop.add_url_rule("/login", "login", nothing, methods=["POST"])
    shop.add_url_rule("/logout", "logout", nothing, methods=["POST"])
    beta.add_url_rule("/gifts", "gifts", nothing)
    beta.add_url_rule("/gifts/labels", "labels", nothing)
    app.register_blueprint(shop)
    app.register_blueprint(beta)
    return app


def fastapi_app(*, asking: bool = False) -> Any:
    """The FastAPI example without flags."""
    from fastapi import Depends, FastAPI, Request
    from fastapi.responses import HTMLResponse
    from fastapi.templating import Jinja2Templates
    from starlette.middleware.sessions import SessionMiddleware

    app = FastAPI(title="A small shop")
    app.add_middleware(SessionMiddleware, secret_key="bench")
    templates = Jinja2Templates(pages(EXAMPLES / "fastapi" / "templates"))
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
    if asking:

        async def nothing() -> None:
            return None

        async def home_of_two(request: Any, user: Any, found: Any) -> Any:
            return await home(request, user)

        home_of_two.__annotations__.update({"request": Request, "return": HTMLResponse})
        home_of_two.__defaults__ = (Depends(current_user), Depends(nothing))
        app.get("/", response_class=HTMLResponse)(home_of_two)
        return app
    app.get("/", response_class=HTMLResponse)(home)
    return app


def fastapi_asking_app() -> Any:
    """The same, and its page has one more dependency, which does nothing."""
    return fastapi_app(asking=True)


urlpatterns: list[Any] = []


def django_app() -> Any:
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
    settings["TEMPLATES"][0]["DIRS"] = [pages(folder / "shop" / "templates")]
    configured.configure(**settings)
    django.setup()
    from django.core.wsgi import get_wsgi_application
    from django.http import HttpRequest, HttpResponse
    from django.shortcuts import render
    from django.urls import path

    def home(request: HttpRequest) -> HttpResponse:
        context = {"detail": DETAIL, "banner": "blue", "switched": False}
        return render(request, "shop/home.html", context)

    def nothing(request: HttpRequest) -> HttpResponse:
        return HttpResponse("")

    urlpatterns.append(path("", home, name="home"))
    urlpatterns.extend(
        path(f"{name}/", nothing, name=name) for name in ("login", "logout", "delivery", "flags")
    )
    return get_wsgi_application()
