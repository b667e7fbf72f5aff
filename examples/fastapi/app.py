"""A small shop with FastAPI: a page whose checkout is behind a flag.

Run it with `python -m uvicorn --app-dir examples/fastapi app:app --port 8003`.
"""

import os
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import parse_qs

from fastapi import Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.templating import Jinja2Templates
from shipsilently_fastapi import FlagsDep, FlagSet, ShipSilently, flags
from shipsilently_fastapi.templating import add_flags
from starlette.middleware.sessions import SessionMiddleware
from starlette.requests import HTTPConnection

PLANS = {"ada": "pro", "bob": "free"}


def user_of(connection: HTTPConnection) -> str | None:
    """Who is logged in, from the signed session cookie."""
    name = connection.session.get("user")
    return name if name in PLANS else None


async def current_user(connection: HTTPConnection) -> str | None:
    """The same as a dependency; a plain function would be called in a thread."""
    return user_of(connection)


CurrentUser = Annotated[str | None, Depends(current_user)]


def current_context(connection: HTTPConnection) -> dict[str, str]:
    """Whom flags are evaluated for; called when a request needs its first flag."""
    user = user_of(connection)
    return {"userId": user, "plan": PLANS[user]} if user else {"userId": "anonymous"}


shipsilently = ShipSilently(
    api_url=os.environ.get("SHIPSILENTLY_API_URL", "http://127.0.0.1:4400"),
    api_key=os.environ.get("SHIPSILENTLY_API_KEY", "sk_local"),
    context=current_context,
)


class Look(FlagSet):
    """How the shop looks; a colour that it does not have is not served."""

    banner: Literal["blue", "green", "amber"] = "blue"


app = FastAPI(title="A small shop", lifespan=shipsilently.lifespan)
app.add_middleware(
    SessionMiddleware, secret_key=os.environ.get("SECRET_KEY", "only for trying this out")
)
templates = Jinja2Templates(Path(__file__).parent / "templates")
add_flags(templates)


@app.get("/", response_class=HTMLResponse)
async def home(request: Request, user: CurrentUser, flags: FlagsDep) -> HTMLResponse:
    """The shop: its checkout is the new one for those who have the flag."""
    context = {
        "user": user,
        "plan": PLANS.get(user or ""),
        "people": PLANS,
        "checkout": flags.detail("new-checkout", False),
        "look": flags.as_(Look),
    }
    return templates.TemplateResponse(request, "home.html", context)


@app.post("/login")
async def login(request: Request) -> RedirectResponse:
    """Log in by name alone, since this is a demo."""
    form = parse_qs((await request.body()).decode("utf-8", "replace"))
    name = form.get("user", [""])[0].strip().lower()
    request.session.clear()
    if name in PLANS:
        request.session["user"] = name
    return RedirectResponse("/", status_code=303)


@app.post("/logout")
async def logout(request: Request) -> RedirectResponse:
    """Be nobody again."""
    request.session.clear()
    return RedirectResponse("/", status_code=303)


@app.get("/api/checkout", **flags.gate("new-checkout"))
async def checkout(user: CurrentUser) -> dict[str, str | None]:
    """What only the new checkout offers; a 404 for everybody else."""
    return {"user": user, "checkout": "new"}
