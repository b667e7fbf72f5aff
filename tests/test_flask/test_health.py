"""The health page: what it tells, and that nothing makes it fail."""

import json

from flask import Flask
from flask.testing import FlaskClient
from shipsilently_flask import flags, health_blueprint

from shipsilently_core.testing import ScriptedService

from .apps import make_app


def site(service: ScriptedService) -> Flask:
    """An app with the health page."""
    app = make_app(service)
    app.register_blueprint(health_blueprint())
    app.add_url_rule("/", "page", lambda: flags.get("banner", "default"))
    return app


def look(client: FlaskClient, status: int = 200) -> dict[str, object]:
    """What the page tells."""
    answer = client.get("/health/flags")
    assert answer.status_code == status
    assert answer.headers["Cache-Control"] == "no-store"
    told: dict[str, object] = answer.get_json()
    return told


def test_the_page_asks_nobody() -> None:
    """Looking at the health evaluates nothing and starts nothing."""
    service = ScriptedService()
    told = look(site(service).test_client())
    assert (told["state"], told["ready"], told["attempts"]) == ("idle", False, 0)
    assert service.requests == []


def test_the_page_is_unhealthy_while_only_defaults_are_left() -> None:
    """A start in an outage is a 503, or what was chosen, and tells the failure."""
    service = ScriptedService({"banner": "blue"})
    app = site(service)
    app.register_blueprint(health_blueprint("/soft", "soft", unavailable=299))
    client = app.test_client()
    service.fail(connected=False)
    client.get("/", headers={"User": "ada"})
    told = look(client, 503)
    assert told["failures"] == {"network": 1}
    assert told["gate"] == "network"
    assert client.get("/soft").status_code == 299


def test_the_page_stays_healthy_in_an_outage_with_values_known() -> None:
    """Last known good values are served: a 200 that tells the failure."""
    service = ScriptedService({"banner": "blue"})
    client = site(service).test_client()
    client.get("/", headers={"User": "ada"})
    service.fail(connected=False)
    client.get("/", headers={"User": "bob"})
    told = look(client)
    assert (told["serving"], told["gate"]) == ("values", "network")


def test_the_page_shows_nothing_of_people_or_flags() -> None:
    """Neither key nor context nor values are on the page."""
    service = ScriptedService({"banner": "blue"})
    client = site(service).test_client()
    client.get("/", headers={"User": "ada"})
    shown = json.dumps(look(client))
    assert not any(secret in shown for secret in ("sk_test", "ada", "blue", "banner"))


def test_the_page_may_be_elsewhere() -> None:
    """Path and name can be chosen, and the prefix when it is registered."""
    app = make_app()
    app.register_blueprint(health_blueprint("/flags", name="how"), url_prefix="/internal")
    assert app.test_client().get("/internal/flags").status_code == 200
    assert "how.health" in app.view_functions
