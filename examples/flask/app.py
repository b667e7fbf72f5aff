"""A small shop with Flask: a page whose checkout is behind a flag.

Run it with `python examples/flask/app.py --port 8002`.
"""

import argparse
import os
from collections.abc import Iterator

from flask import (
    Blueprint,
    Flask,
    Response,
    redirect,
    render_template,
    request,
    session,
    stream_with_context,
    url_for,
)
from shipsilently_flask import ShipSilently, flags
from werkzeug.wrappers import Response as BaseResponse

PLANS = {"ada": "pro", "bob": "free"}

shipsilently = ShipSilently(
    api_url=os.environ.get("SHIPSILENTLY_API_URL", "http://127.0.0.1:4400"),
    api_key=os.environ.get("SHIPSILENTLY_API_KEY", "sk_local"),
    anonymous_id="cookie",  # so that a rollout shows each visitor the same shop every time
)
shop = Blueprint("shop", __name__)
beta = Blueprint("beta", __name__, url_prefix="/beta")
flags.gate(beta, "new-checkout")


def current_user() -> str | None:
    """Who is logged in, from Flask's signed session cookie."""
    name = session.get("user")
    return name if name in PLANS else None


@shipsilently.context_loader
def load_context() -> dict[str, str] | None:
    """Whom flags are evaluated for; called when a request reads its first flag."""
    user = current_user()
    return {"userId": user, "plan": PLANS[user]} if user else None


@shop.get("/")
def home() -> str:
    """The shop: its checkout is the new one for those who have the flag."""
    user = current_user()
    return render_template("home.html", user=user, plan=PLANS.get(user or ""), people=PLANS)


@shop.post("/login")
def login() -> BaseResponse:
    """Log in by name alone, since this is a demo."""
    session.clear()
    name = request.form.get("user", "").strip().lower()
    if name in PLANS:
        session["user"] = name
    return redirect(url_for("shop.home"), code=303)


@shop.post("/logout")
def logout() -> BaseResponse:
    """Be nobody again."""
    session.clear()
    return redirect(url_for("shop.home"), code=303)


@beta.get("/gifts")
def gifts() -> str:
    """A page of a blueprint that is a 404 for all who do not have the flag."""
    return render_template("gifts.html")


@beta.get("/gifts/labels")
def labels() -> Response:
    """A streamed page: its body sees the flags of its request."""

    def lines() -> Iterator[str]:
        for number in range(1, 4):
            yield f"label {number}, {flags.get('banner', 'blue')} paper\n"

    return Response(stream_with_context(lines()), mimetype="text/plain")


def create_app() -> Flask:
    """Make the site."""
    app = Flask(__name__)
    # A browser sends cookies to all ports of a machine: other sites there have sessions, too.
    app.config["SESSION_COOKIE_NAME"] = "flask_shop"
    app.secret_key = os.environ.get("SECRET_KEY", "only for trying this out")
    shipsilently.init_app(app)
    app.register_blueprint(shop)
    app.register_blueprint(beta)
    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8002)
    create_app().run(port=parser.parse_args().port)
