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
    stream_with_context,
    url_for,
)
from flask_login import (
    LoginManager,
    UserMixin,
    current_user,
    login_required,
    login_user,
    logout_user,
)
from shipsilently_flask import ShipSilently, flags
from werkzeug.wrappers import Response as BaseResponse


class Account(UserMixin):
    """Somebody who can log in. A real shop would have a table of these."""

    def __init__(self, name: str, plan: str) -> None:
        self.id = name
        self.plan = plan


ACCOUNTS = {name: Account(name, plan) for name, plan in (("ada", "pro"), ("bob", "free"))}

login_manager = LoginManager()
login_manager.login_view = "shop.home"
login_manager.login_message = None  # the page asks for a name anyway
login_manager.user_loader(ACCOUNTS.get)

shipsilently = ShipSilently(
    api_url=os.environ.get("SHIPSILENTLY_API_URL", "http://127.0.0.1:4400"),
    api_key=os.environ.get("SHIPSILENTLY_API_KEY", "sk_local"),
    anonymous_id="cookie",  # so that a rollout shows each visitor the same shop every time
)
shop = Blueprint("shop", __name__)
beta = Blueprint("beta", __name__, url_prefix="/beta")
flags.gate(beta, "new-checkout")


@shipsilently.context_loader
def load_context() -> dict[str, str] | None:
    """Whom flags are evaluated for; called when a request reads its first flag.

    Without this they would be for Flask-Login's user, too, but the rule goes by the plan.
    """
    if not current_user.is_authenticated:
        return None
    return {"userId": current_user.get_id(), "plan": current_user.plan}


@shop.get("/")
def home() -> str:
    """The shop: its checkout is the new one for those who have the flag."""
    checkout = flags.detail("new-checkout", False)
    return render_template("home.html", people=ACCOUNTS, checkout=checkout)


@shop.post("/login")
def login() -> BaseResponse:
    """Log in by name alone, since this is a demo."""
    account = ACCOUNTS.get(request.form.get("user", "").strip().lower())
    if account is None:
        logout_user()
    else:
        login_user(account)
    return redirect(url_for("shop.home"), code=303)


@shop.post("/logout")
def logout() -> BaseResponse:
    """Be nobody again."""
    logout_user()
    return redirect(url_for("shop.home"), code=303)


@beta.get("/gifts")
def gifts() -> str:
    """A page of a blueprint that is a 404 for all who do not have the flag."""
    return render_template("gifts.html")


@beta.get("/gifts/labels")
@login_required
def labels() -> Response:
    """A streamed page, for people with an account: its body sees the flags of its request."""

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
    login_manager.init_app(app)
    shipsilently.init_app(app)
    app.register_blueprint(shop)
    app.register_blueprint(beta)
    return app


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8002)
    create_app().run(port=parser.parse_args().port)
