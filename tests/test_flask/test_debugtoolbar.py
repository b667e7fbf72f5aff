"""The panel for Flask-DebugToolbar, in the toolbar's own page."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from flask import Flask, copy_current_request_context, current_app
from flask_debugtoolbar import DebugToolbarExtension
from shipsilently_flask import debugtoolbar, flags, override_flags, signals

from shipsilently_core.testing import ScriptedService

from .apps import client_of, in_thread, make_app

PANEL = "shipsilently_flask.debugtoolbar.FlagsDebugPanel"


@pytest.fixture
def service() -> ScriptedService:
    """A service with three flags."""
    return ScriptedService({"on": True, "text": "<b>", "other": 1})


@pytest.fixture
def app(service: ScriptedService) -> Iterator[Flask]:
    """An app with the toolbar and a page that reads the flags that its query names."""
    app = make_app(service)
    app.config.update(DEBUG_TB_ENABLED=True, DEBUG_TB_PANELS=[PANEL])
    DebugToolbarExtension(app)
    app.add_url_rule("/", "none", page)
    app.add_url_rule("/read/<keys>", "read", read)
    yield app
    signals.flag_evaluated.disconnect(debugtoolbar._remember)


def page(text: str = "") -> str:
    """A page into which the toolbar can be put."""
    return f"<!doctype html><html><body>{text}</body></html>"


def read(keys: str) -> str:
    """Read some flags, each twice."""
    return page(" ".join(str(flags.get(key)) for key in 2 * keys.split(",")))


def shown(app: Flask, path: str, **headers: str) -> tuple[str, list[list[str]], str]:
    """What the panel says: closed, the rows of its table, and all of it."""
    html = app.test_client().get(path, headers=headers).text
    (subtitle,) = re.findall(r"Flags\s*<br\s*/?>\s*<small>(.*?)</small>", html, re.DOTALL)
    start = html.index("Feature flags")
    rows = re.findall(r'<tr class="flDebug(?:Odd|Even)">(.*?)</tr>', html[start:], re.DOTALL)
    cells = [re.findall(r"<td>(.*?)</td>", row, re.DOTALL) for row in rows]
    return subtitle.strip(), cells, html[start:]


def test_the_panel_marks_what_the_request_has_read(app: Flask) -> None:
    """Flags that were read come first and are marked, the others follow; all is escaped."""
    closed, rows, text = shown(app, "/read/text", User="ada")
    assert closed == "1 read of 3 from server"
    assert rows == [
        ["read", "text", "<code>&#34;&lt;b&gt;&#34;</code>", "default", "", "server"],
        ["", "on", "<code>true</code>", "default", "", "server"],
        ["", "other", "<code>1</code>", "default", "", "server"],
    ]
    assert "ada" in text


def test_a_value_that_stands_in_is_shown_with_its_age(service: ScriptedService) -> None:
    """In an outage a flag is last known good, or what was shipped with the app."""
    client = client_of(service, bootstrap={"shipped": {"value": 1}})
    app = make_app(client=client)
    app.config.update(DEBUG_TB_ENABLED=True, DEBUG_TB_PANELS=[PANEL])
    DebugToolbarExtension(app)
    app.add_url_rule("/read/<keys>", "read", read)
    client.evaluate_all({"userId": "ada"})
    service.fail(503)
    client._clock.advance(180)  # type: ignore[attr-defined]  # it is the test's own
    _, rows, _ = shown(app, "/read/on,shipped", User="ada")
    assert [row[1::4] for row in rows[:2]] == [
        ["on", "cache, 3 min old"],
        ["shipped", "bootstrap"],
    ]
    signals.flag_evaluated.disconnect(debugtoolbar._remember)


def test_a_flag_that_does_not_exist_is_shown_as_served(app: Flask) -> None:
    """A read of a flag that the service does not know is in the table, with its default."""
    _, rows, _ = shown(app, "/read/txet")
    assert rows[0] == ["read", "txet", "<code>null</code>", "flag_not_found", "", "default"]
    assert len(rows) == 4


def test_each_request_has_marks_of_its_own(app: Flask) -> None:
    """What one request has read is not marked in the next."""
    marked = []
    for keys in ("on", "text,other"):
        _, rows, _ = shown(app, f"/read/{keys}")
        marked.append([row[1] for row in rows if row[0]])
    assert marked == [["on"], ["other", "text"]]


def test_reads_of_a_requests_threads_are_marked(app: Flask) -> None:
    """A flag that a copied request context has read belongs to the request."""

    @app.get("/thread")
    def threaded() -> str:
        return page(in_thread(copy_current_request_context(lambda: flags.get("text", ""))))

    assert shown(app, "/thread")[1][0][:2] == ["read", "text"]


def test_a_read_with_a_context_of_ones_own_is_marked(app: Flask) -> None:
    """What the app's client is asked in a request is shown, though the request has no flags."""

    @app.get("/own")
    def own() -> str:
        client = current_app.extensions["shipsilently"].client
        return page(client.evaluate("text", {"userId": "ada"}, ""))

    closed, rows, _ = shown(app, "/own")
    assert (closed, rows[0][:2]) == ("1 read of 1 from server", ["read", "text"])


def test_a_read_outside_of_requests_is_nobodys(app: Flask) -> None:
    """A read in a bare app context disturbs nothing."""
    with app.app_context():
        assert flags.get("on", False) is True
    assert shown(app, "/")[0] == "none read"


def test_the_panel_evaluates_nothing_by_itself(app: Flask, service: ScriptedService) -> None:
    """For a request that read no flag the panel asks nobody and says so."""
    closed, rows, text = shown(app, "/")
    assert (closed, rows) == ("none read", [])
    assert "read no flag" in text
    assert service.requests == []


def test_the_panel_shows_an_outage(app: Flask, service: ScriptedService) -> None:
    """With nothing known the panel shows defaults, and with an override where that is from."""
    service.fail(503)
    closed, rows, _ = shown(app, "/read/on")
    assert closed == "1 read of 1 from default"
    assert rows[0][2:4] == ["<code>null</code>", "error_fallback"]
    with override_flags(on=True):
        closed, rows, _ = shown(app, "/read/on")
    assert (closed, rows[0][1]) == ("0 read of 1 from override", "on")


def test_other_apps_note_nothing(app: Flask) -> None:
    """An app of the process without the toolbar notes nothing, also around a read of this one."""
    other: Any = make_app(ScriptedService({"on": True}), name="other")
    with other.test_request_context() as context:
        assert flags.get("on", False) is True
        with app.app_context():
            assert flags.get("on", False) is True
        assert debugtoolbar._KEY not in vars(context.request)
