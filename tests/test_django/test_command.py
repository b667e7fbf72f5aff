"""`manage.py shipsilently`."""

import json
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.http import HttpRequest
from pytest_django import Settings
from shipsilently_django.options import read_options

from shipsilently_core import ShipSilentlyClient
from shipsilently_core.testing import ScriptedService

Configure = Callable[..., None]


def run(*words: str) -> str:
    """What the command prints."""
    output = StringIO()
    call_command("shipsilently", *words, stdout=output)
    return output.getvalue()


@pytest.fixture(autouse=True)
def _flags(configure: Configure, service: ScriptedService) -> None:
    service.set(lambda context: {"x": True, "who": context.get("userId", "nobody"), "ü": {"a": 1}})


def test_every_flag_is_listed() -> None:
    """`list` prints a table of every flag for an anonymous visitor."""
    assert run("list").splitlines() == [
        "FLAG  VALUE     REASON   RULE",
        'who   "nobody"  default',
        "x     true      default",
        'ü     {"a": 1}  default',
    ]


def test_one_flag_is_evaluated(ada: User) -> None:
    """`evaluate` asks for one flag, for a user or any other context."""
    assert str(ada.pk) in run("evaluate", "who", "--user", "ada")
    assert '"u7"' in run("evaluate", "who", "--context", "userId=u7")
    assert json.loads(run("evaluate", "x", "--json")) == {
        "x": {"value": True, "reason": "default", "ruleId": None}
    }


def test_values_of_attributes_are_json(service: ScriptedService) -> None:
    """Numbers and booleans are sent as what they are, the rest as strings."""
    run("list", "--context", "age=7", "beta=true", "plan=pro", "name=a=b")
    assert json.loads(service.requests[-1].body) == {
        "context": {"age": 7, "beta": True, "plan": "pro", "name": "a=b"}
    }


@pytest.mark.parametrize(
    "words",
    [
        ["--context", "plan=pro", "--context", "age=7"],
        ["--attr", "plan=pro", "--attr", "age=7"],
        ["--context", '{"plan": "pro"}', "age=7"],
    ],
)
def test_the_forms_of_the_other_commands_are_taken(
    service: ScriptedService, words: list[str]
) -> None:
    """What `shipsilently` and `flask` take as a context is one here as well."""
    run("list", *words)
    assert json.loads(service.requests[-1].body) == {"context": {"plan": "pro", "age": 7}}


def test_a_failed_call_without_a_cache_is_one_line(
    configure: Configure, service: ScriptedService
) -> None:
    """A client that raises instead of serving what it knows ends with one line that says why."""
    configure(CLIENT=ShipSilentlyClient(api_key="sk_test", transport=service, disable_cache=True))
    service.fail(503)
    for words in (["list"], ["evaluate", "x"]):
        with pytest.raises(CommandError, match=r"^the service failed \(HTTP 503\)$"):
            run(*words)


def test_the_sites_hook_makes_the_context(
    configure: Configure, service: ScriptedService, ada: User
) -> None:
    """A user's context is the one that the site would send."""

    async def hook(request: HttpRequest) -> dict[str, Any]:
        user = await request.auser()
        return {"name": user.get_username()}

    configure(CONTEXT=hook)
    run("list", "--user", "ada")
    assert json.loads(service.requests[-1].body) == {"context": {"name": "ada"}}


def hook_of_requests(request: HttpRequest) -> dict[str, Any]:
    """A hook that needs what only requests have."""
    return {"userId": request.session["account"], "host": request.get_host()}


def secretive_hook(request: HttpRequest) -> dict[str, Any]:
    """A hook whose error tells of somebody."""
    raise ValueError("ada@example.com")


@pytest.mark.django_db
@pytest.mark.parametrize("hook", [hook_of_requests, secretive_hook])
@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["evaluate", "x"],
        ["watch"],
        ["list", "--user", "ada"],
        ["snapshot", "--user", "ada", "--context", "plan=pro"],
    ],
    ids=" ".join,
)
def test_a_hook_that_needs_a_request_is_one_line(
    configure: Configure, ada: User, hook: Any, words: list[str]
) -> None:
    """It names the hook and the kind of error, never its message, and says what to do."""
    configure(CONTEXT=hook)
    with pytest.raises(CommandError) as caught:
        run(*words)
    kind = "AttributeError" if hook is hook_of_requests else "ValueError"
    assert str(caught.value) == (
        f"the CONTEXT hook {__name__}.{hook.__name__} made no context outside of a request, where "
        f"there is no session and no host ({kind}); say whom for with --context, without --user"
    )
    assert caught.value.__suppress_context__


def test_a_context_may_stand_in_for_such_a_hook(
    configure: Configure, service: ScriptedService
) -> None:
    """With `--context` alone that is what is sent, and one line says so."""
    configure(CONTEXT=hook_of_requests)
    errors = StringIO()
    call_command("shipsilently", "list", "--context", "plan=pro", stdout=StringIO(), stderr=errors)
    assert json.loads(service.requests[-1].body) == {"context": {"plan": "pro"}}
    assert errors.getvalue().count("\n") == 1
    assert "(AttributeError); only what --context says is sent" in errors.getvalue()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["evaluate", "nothing"], "^there is no flag 'nothing'$"),
        (["list", "--user", "eve"], "there is no user 'eve'"),
        (["list", "--context", "plan"], "--context: is not NAME=VALUE"),
        (["list", "--context", "=pro"], "--context: is not NAME=VALUE"),
        ([], "required: verb"),
    ],
)
def test_mistakes_are_told(words: list[str], message: str) -> None:
    """An unknown flag or user, and a malformed attribute, end the command with an error."""
    with pytest.raises(CommandError, match=message):
        run(*words)


@pytest.mark.parametrize("place", ["before the verb", "behind it"])
def test_djangos_own_options_may_stand_on_both_sides(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--settings`, and the rest that each command of Django's has, count where they stand."""
    for name in ("DJANGO_SETTINGS_MODULE", "SHIPSILENTLY_API_KEY", "SHIPSILENTLY_KEY"):
        monkeypatch.delenv(name, raising=False)
    options = ["--settings", "tests.django_settings", "-v", "0", "--traceback", "--skip-checks"]
    words = ["--context", "userId=u7"]
    before, behind = (options, words) if place == "before the verb" else ([], [*words, *options])
    shown = subprocess.run(
        [sys.executable, "-m", "django", "shipsilently", *before, "list", *behind],
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    # The settings were found, and they have no key.
    assert "CommandError: this site asks no service" in shown.stderr
    assert "Traceback" in shown.stderr


def test_an_outage_is_told(service: ScriptedService) -> None:
    """What is known is not passed off as the service's answer."""
    service.fail(503)
    with pytest.raises(CommandError, match=r"^the service failed \(HTTP 503\)$"):
        run("list")


def test_a_site_that_asks_nobody_says_so(settings: Settings) -> None:
    """Offline, the command has nothing to show."""
    settings.SHIPSILENTLY = {"API_KEY": "sk_test", "OFFLINE": True}
    with pytest.raises(CommandError, match="asks no service"):
        run("list")


def test_a_snapshot_is_what_bootstrap_reads(
    tmp_path: Path, service: ScriptedService, settings: Settings
) -> None:
    """`snapshot` prints or writes every flag for the client's own context, without a database."""
    printed = json.loads(run("snapshot"))
    assert printed["flags"]["who"] == {"value": "system", "reason": "default"}
    assert json.loads(run("snapshot", "-o", "-"))["flags"] == printed["flags"]
    path = tmp_path / "flags.json"
    assert run("snapshot", "-o", str(path)) == ""
    assert json.loads(path.read_text())["flags"] == printed["flags"]
    problems = read_options({"API_KEY": "sk_test", "BOOTSTRAP": path}).problems
    assert problems == ()


def test_a_snapshot_can_be_anybodys(ada: User) -> None:
    """`--user` and `--context` say whose."""
    assert json.loads(run("snapshot", "--user", "ada"))["flags"]["who"]["value"] == str(ada.pk)
    shown = json.loads(run("snapshot", "--context", "userId=u7"))
    assert shown["flags"]["who"]["value"] == "u7"


def test_a_snapshot_without_an_answer_is_an_error(tmp_path: Path, service: ScriptedService) -> None:
    """Nothing is written then, nor where there is no such folder."""
    path = tmp_path / "missing" / "flags.json"
    with pytest.raises(CommandError, match="No such file"):
        run("snapshot", "-o", str(path))
    service.fail(503)
    with pytest.raises(CommandError, match=r"^the service failed \(HTTP 503\)$"):
        run("snapshot", "-o", str(tmp_path / "flags.json"))
    assert list(tmp_path.iterdir()) == []
