"""Types are JSON's in every door of an app: `true` is not 1, and 1 is not `true`."""

from typing import Any

import pytest
from flask import Flask, render_template_string
from shipsilently_flask import flags, requires_flag

from shipsilently_core.testing import ScriptedService

from .apps import make_app

SERVED: dict[str, Any] = {
    "true": True,
    "false": False,
    "one": 1,
    "float": 1.0,
    "half": 1.5,
    "text": "1",
    "word": "true",
    "object": {},
    "null": None,
}
#: The defaults of typed reads, and the flags whose value is served instead of them.
FITTING: list[tuple[Any, set[str]]] = [
    (False, {"true", "false"}),
    (0, {"one", "float", "half"}),
    (0.5, {"one", "float", "half"}),
    ("", {"text", "word"}),
    ({}, {"object"}),
]


@pytest.fixture
def app() -> Flask:
    """An app whose flags are of every type."""
    return make_app(ScriptedService(SERVED))


def served_or(default: Any, key: str, fitting: set[str]) -> Any:
    """What a typed read gives."""
    return SERVED[key] if key in fitting else default


@pytest.mark.parametrize(("default", "fitting"), FITTING)
@pytest.mark.parametrize("key", SERVED)
def test_a_typed_read_gives_that_type(
    app: Flask, key: str, default: Any, fitting: set[str]
) -> None:
    """A value of another type than the default's is not served, in views and in templates."""
    right = served_or(default, key, fitting)
    source = "{{ flag(key, default) }} {{ key|flag(default) }} {{ flags.get(key, default) }}"
    app.add_url_rule("/", "sync", lambda: repr(flags.get(key, default)))

    @app.get("/async")
    async def asynchronous() -> str:
        return repr(await flags.aget(key, default))

    client = app.test_client()
    assert client.get("/").text == client.get("/async").text == repr(right)
    with app.test_request_context():
        shown = render_template_string(source, key=key, default=default)
    assert shown == shown_thrice(right)


def shown_thrice(value: Any) -> str:
    """A value as Jinja shows it, three times."""
    return f"{value} {value} {value}"


@pytest.mark.parametrize("key", SERVED)
def test_only_true_is_on(app: Flask, key: str) -> None:
    """Gates, tags and tests take nothing but `true` for on, sync and async."""
    source = "{% flag key %}on{% endflag %}{% if key is active_flag %}on{% endif %}"

    async def page() -> str:
        return "page"

    app.add_url_rule("/", "sync", requires_flag(key)(lambda: "page"))
    app.add_url_rule("/async", "async", requires_flag(key)(page))
    client = app.test_client()
    on = key == "true"
    assert {client.get(path).status_code for path in ("/", "/async")} == {200 if on else 404}
    with app.test_request_context():
        assert render_template_string(source, key=key) == ("onon" if on else "")
        assert flags.is_enabled(key) is on
