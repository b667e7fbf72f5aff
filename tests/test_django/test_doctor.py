"""`manage.py shipsilently doctor` and `watch`."""

import json
import os
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from pytest_django import Settings

from shipsilently_core import Config, ShipSilentlyClient
from shipsilently_local import LocalService
from tests.cli.running import running

from .site import Urls

pytestmark = pytest.mark.usefixtures("fresh_process")

FLAGS = {"x": True, "banner": "Good morning"}


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalService]:
    """The local service with quick heartbeats."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    with LocalService(FLAGS, heartbeat=0.1) as running:
        yield running


@pytest.fixture
def site(settings: Settings, service: LocalService, tmp_path: Path) -> dict[str, Any]:
    """A site on that service, whose code is in an empty folder: its ``SHIPSILENTLY``."""
    settings.BASE_DIR = tmp_path
    told: dict[str, Any] = {
        "API_KEY": service.key,
        "API_URL": service.url,
        "DEFAULTS": {"x": False},
        "ON_STATE_CHANGE": print,
        "ON_ERROR": print,
    }
    settings.SHIPSILENTLY = told
    return told


def examine(*words: str) -> tuple[str, int]:
    """What the doctor prints, and how it ends."""
    output = StringIO()
    try:
        call_command("shipsilently", "doctor", *words, stdout=output, stderr=StringIO())
    except SystemExit as ended:
        return output.getvalue(), int(ended.code or 0)
    return output.getvalue(), 0


def checks(*words: str) -> dict[str, dict[str, Any]]:
    """Each check of the report; of those of one name the last."""
    document, _ = examine("--quick", "--json", *words)
    return {check["check"]: check for check in json.loads(document)["checks"]}


@pytest.mark.usefixtures("site")
def test_all_is_well() -> None:
    """With settings, middleware and hooks in order it ends with 0."""
    text, code = examine()
    assert (code, text.splitlines()[-1]) == (0, "All is well.")
    for name in ("heartbeat", "django"):
        assert any(line.startswith(f"ok       {name} ") for line in text.splitlines())


def test_a_wrong_key_is_named(site: dict[str, Any]) -> None:
    """A refused key is a failure at its own line, and is not shown."""
    site["API_KEY"] = "sk_live_recognisable"
    text, code = examine("--quick")
    assert (code, text.splitlines()[-1]) == (
        2,
        "The cause: access: the key is refused (HTTP 401).",
    )
    assert "recognisable" not in text


def test_wrong_settings_are_named(site: dict[str, Any]) -> None:
    """What the system checks say of the settings is the doctor's first line."""
    site["TIMEOUT"] = -1
    text, code = examine("--quick")
    assert code == 2
    assert text.startswith("failure  configuration")
    assert "TIMEOUT" in text.splitlines()[0]
    assert "ok       configuration" not in text


@pytest.mark.usefixtures("site")
def test_middleware_out_of_order_is_named(settings: Settings) -> None:
    """What the system checks say of the middleware is told among the rest."""
    settings.MIDDLEWARE = []
    found = checks()["django"]
    assert found["level"] == "warning"
    assert "FlagsMiddleware is not in MIDDLEWARE" in found["text"]
    assert "(shipsilently.W001)" in found["advice"]


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("read", ["request.flags.is_enabled('x')", "self.request.flags"])
def test_a_view_that_needs_the_missing_middleware_is_a_failure(
    settings: Settings, tmp_path: Path, read: str
) -> None:
    """Where code reads `request.flags`, the site without middleware does not work."""
    settings.MIDDLEWARE = []
    (tmp_path / "views.py").write_text(f"def view(self, request):\n    return {read}")
    text, code = examine("--quick")
    assert code == 2
    assert text.splitlines()[-1] == (
        "The cause: django: FlagsMiddleware is not in MIDDLEWARE, and views.py:2 reads "
        "`request.flags`, which is an error there."
    )


@pytest.mark.usefixtures("site")
def test_tags_alone_need_no_middleware(settings: Settings, tmp_path: Path) -> None:
    """A site that uses tags and gates only works, with a warning, and is told so."""
    settings.MIDDLEWARE = []
    (tmp_path / "page.html").write_text('{% flag "x" %}{{ request.flags }}{% endflag %}')
    (tmp_path / "views.py").write_text("page = requires_flag('x')(page)\nother.flags")
    text, code = examine("--quick")
    assert (code, text.splitlines()[-1]) == (1, "It works, with 1 warning.")


@pytest.mark.parametrize(
    ("told", "middleware", "says"),
    [
        ({"ANONYMOUS_ID": "session"}, ["shipsilently_django.FlagsMiddleware"], "ANONYMOUS_ID"),
        ({"ATTRIBUTES": ["nope"]}, None, "ATTRIBUTES"),
    ],
)
def test_what_contexts_would_lack_is_named(
    site: dict[str, Any],
    settings: Settings,
    told: dict[str, Any],
    middleware: list[str] | None,
    says: str,
) -> None:
    """What the system checks say of visitors and of users' attributes is told as well."""
    site.update(told)
    if middleware is not None:
        settings.MIDDLEWARE = middleware
    found = checks()["django"]
    assert (found["level"], says in found["text"]) == ("warning", True)


@pytest.mark.usefixtures("site")
def test_addresses_that_cannot_be_loaded_are_named(settings: Settings) -> None:
    """A site whose views cannot be imported is a failure, and the rest is examined all the same."""
    settings.ROOT_URLCONF = "there.is.no.such.module"
    text, code = examine("--quick")
    assert code == 2
    assert "the site's addresses cannot be loaded: ModuleNotFoundError" in text


def test_a_site_that_asks_nobody_is_a_warning(site: dict[str, Any]) -> None:
    """`OFFLINE` in the settings is told, and the way to the service examined all the same."""
    site["OFFLINE"] = True
    text, code = examine("--quick")
    assert code == 1
    assert "SHIPSILENTLY['OFFLINE'] is on" in text
    assert "the key is accepted" in text


def test_a_client_of_the_sites_own_is_examined(site: dict[str, Any], settings: Settings) -> None:
    """With ``CLIENT`` it is that client's settings that count."""
    config = Config(api_key=site["API_KEY"], api_url=site["API_URL"], timeout=7)
    settings.SHIPSILENTLY = {"CLIENT": ShipSilentlyClient(config)}
    assert "deadline 7 s" in checks()["configuration"]["text"]


@pytest.mark.usefixtures("site")
def test_reads_without_a_default_are_listed(tmp_path: Path) -> None:
    """Flags that templates and views below ``BASE_DIR`` read need a default."""
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "a.html").write_text('{% flag "x" %}{% flag "banner" %}')
    found = checks()["defaults"]
    assert found["level"] == "warning"
    assert found["text"] == (
        f"1 flag read without a default: banner ({Path('templates/a.html:1')})"
    )


@pytest.mark.usefixtures("site")
def test_without_a_base_folder_the_apps_are_read(settings: Settings) -> None:
    """Where no ``BASE_DIR`` is set, the installed apps of the site itself are searched."""
    del settings.BASE_DIR
    assert checks()["defaults"]["text"] == "1 declared; no flag was found in the sources"


@pytest.mark.usefixtures("site")
def test_a_sites_own_app_is_read(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the installed apps those that are no libraries are searched."""
    app = tmp_path / "own_app"
    app.mkdir()
    (app / "__init__.py").touch()
    (app / "page.html").write_text('{% flag "banner" %}')
    monkeypatch.syspath_prepend(tmp_path)
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "own_app"]
    del settings.BASE_DIR
    assert "1 flag read without a default: banner" in checks()["defaults"]["text"]


@pytest.mark.usefixtures("site")
def test_hooks_of_views_are_seen(settings: Settings) -> None:
    """Views are loaded before anything is looked at, since hooks may be connected there."""
    settings.ROOT_URLCONF = Urls()
    assert checks()["hooks"]["level"] == "ok"


def test_watch_follows_the_site(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """`watch` prints flags, states and changes of the site's client until Ctrl-C."""
    monkeypatch.setenv("SHIPSILENTLY_API_URL", service.url)
    monkeypatch.setenv("SHIPSILENTLY_API_KEY", service.key)
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "tests.django_settings")
    monkeypatch.setenv("PYTHONPATH", os.getcwd())
    words = ("-m", "django", "shipsilently", "watch", "--json", "--context", "plan=recognisable")
    with running(*words) as command:
        command.read_all("streaming", "banner")
        service.set_flag("banner", default="Good night")
        change = json.loads(command.read_until("Good night"))
        assert (change["event"], change["old"]) == ("change", "Good morning")
        assert command.end() == (0, "")
    assert "recognisable" not in "".join(command.lines)


def test_a_site_that_asks_nobody_has_nothing_to_follow(site: dict[str, Any]) -> None:
    """Offline, `watch` says so."""
    site["OFFLINE"] = True
    with pytest.raises(CommandError, match="asks no service"):
        call_command("shipsilently", "watch")
