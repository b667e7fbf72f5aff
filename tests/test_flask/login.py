"""Flask-Login: the real one where it is installed, else what this package uses of it."""

import importlib
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from blinker import Namespace
from flask import Flask, current_app, g, has_request_context, session
from werkzeug.local import LocalProxy


class User:
    """Somebody with an account, by the contract of Flask-Login's users."""

    is_authenticated = is_active = True
    is_anonymous = False

    def __init__(self, name: str) -> None:
        self.name = name

    def get_id(self) -> str:
        """What Flask-Login keeps in the session."""
        return self.name


def use_flask_login(app: Flask, patch: pytest.MonkeyPatch) -> Any:
    """Set up Flask-Login on `app`; returns its module."""
    try:
        module = importlib.import_module("flask_login")
    except ModuleNotFoundError:
        module = _stand_in()
        patch.setitem(sys.modules, "flask_login", module)
    manager: Any = module.LoginManager()
    manager.init_app(app)
    manager.user_loader(User)
    return module


def _stand_in() -> ModuleType:
    module: Any = ModuleType("flask_login")
    signals = Namespace()
    module.user_logged_in = signals.signal("logged-in")
    module.user_logged_out = signals.signal("logged-out")
    nobody = SimpleNamespace(get_id=lambda: None)

    class LoginManager:
        def init_app(self, app: Flask) -> None:
            app.login_manager = self  # type: ignore[attr-defined]  # as Flask-Login does

        def user_loader(self, loader: Any) -> None:
            self.load = loader

    def user() -> Any:
        if not has_request_context():
            return None
        if "_login_user" not in g:
            name = session.get("_user_id")
            g._login_user = User(name) if name else nobody
        return g._login_user

    def login_user(user: User) -> None:
        session["_user_id"] = user.get_id()
        g._login_user = user
        module.user_logged_in.send(current_app._get_current_object(), user=user)  # type: ignore[attr-defined]

    def logout_user() -> None:
        session.pop("_user_id", None)
        module.user_logged_out.send(current_app._get_current_object(), user=user())  # type: ignore[attr-defined]
        g._login_user = nobody

    module.LoginManager = LoginManager
    module.current_user = LocalProxy(user)
    module.login_user = login_user
    module.logout_user = logout_user
    made: ModuleType = module
    return made
