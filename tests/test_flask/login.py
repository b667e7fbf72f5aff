"""Flask-Login, as the apps of the tests use it."""

from typing import Any

import flask_login  # type: ignore[import-untyped]
from flask import Flask


class User:
    """Somebody with an account, by the contract of Flask-Login's users."""

    is_authenticated = is_active = True
    is_anonymous = False

    def __init__(self, name: str) -> None:
        self.name = name

    def get_id(self) -> str:
        """What Flask-Login keeps in the session."""
        return self.name


def use_flask_login(app: Flask) -> Any:
    """Set up Flask-Login on `app`; returns its module."""
    manager = flask_login.LoginManager()
    manager.init_app(app)
    manager.user_loader(User)
    return flask_login
