"""The panel for Flask-DebugToolbar: on the real one where it is installed, else on a stand-in."""

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from flask import Flask
from jinja2 import Environment
from shipsilently_flask import flags, override_flags

from shipsilently_core.testing import ScriptedService

from .apps import make_app

MODULE = "shipsilently_flask.debugtoolbar"


class StandIn:
    """What the panel uses of its base class."""

    def __init__(self, jinja_env: Environment, context: dict[str, Any] | None = None) -> None:
        self.jinja_env = jinja_env


@pytest.fixture
def panel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A panel, as the toolbar makes one for a request."""
    try:
        importlib.import_module("flask_debugtoolbar.panels")
    except ModuleNotFoundError:
        panels: Any = ModuleType("flask_debugtoolbar.panels")
        panels.DebugPanel = StandIn
        monkeypatch.setitem(sys.modules, "flask_debugtoolbar", ModuleType("flask_debugtoolbar"))
        monkeypatch.setitem(sys.modules, "flask_debugtoolbar.panels", panels)
    yield importlib.import_module(MODULE).FlagsDebugPanel(Environment(autoescape=True))
    sys.modules.pop(MODULE)


@pytest.fixture
def app() -> Flask:
    """An app with two flags."""
    return make_app(ScriptedService({"on": True, "text": "<b>"}))


def texts(panel: Any) -> tuple[str, str]:
    """What the panel says, closed and open."""
    assert (panel.nav_title(), panel.title(), panel.url()) == ("Flags", "Feature flags", "")
    return panel.nav_subtitle(), panel.content()


def test_the_panel_lists_what_the_request_sees(app: Flask, panel: Any) -> None:
    """After a read the panel shows every flag, escaped, with its source and whom it is for."""
    with app.test_request_context(headers={"User": "ada"}):
        flags.is_enabled("on")
        panel.process_response(None, None)
    closed, opened = texts(panel)
    assert closed == "2 from server"
    assert "<td>on</td>" in opened
    assert "&lt;b&gt;" in opened
    assert "ada" in opened


def test_the_panel_evaluates_nothing_by_itself(panel: Any) -> None:
    """For a request that read no flag the panel asks nobody and says so."""
    service = ScriptedService({"on": True})
    with make_app(service).test_request_context():
        panel.process_response(None, None)
    closed, opened = texts(panel)
    assert closed == "none read"
    assert "read no flag" in opened
    assert service.requests == []


def test_the_panel_shows_an_outage(panel: Any) -> None:
    """With nothing known the panel says that there is nothing, and with an override where from."""
    service = ScriptedService()
    service.fail(503)
    with make_app(service).test_request_context():
        flags.is_enabled("on")
        panel.process_response(None, None)
        assert panel.nav_subtitle() == "0 from nowhere"
        with override_flags(on=True):
            panel.process_response(None, None)
        assert panel.nav_subtitle() == "1 from override"
