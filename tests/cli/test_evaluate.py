"""`shipsilently evaluate`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from shipsilently_cli import main
from shipsilently_local import LocalService


def run(*words: str) -> Result:
    """What the command does."""
    return CliRunner().invoke(main, ["evaluate", *words])


def test_a_flag_is_evaluated(service: LocalService) -> None:
    """The value comes as JSON, with its reason and where it is from, after one call."""
    shown = run("banner")
    assert (shown.exit_code, shown.output) == (0, '"Good morning"  (default, from server)\n')
    assert [request.path for request in service.requests] == ["/v1/evaluate"]


def test_the_context_counts(service: LocalService) -> None:
    """`--context` says whom for."""
    shown = run("checkout-v2", "--context", '{"plan": "pro"}')
    assert shown.output == "true  (rule_match paying customers, from server)\n"


def test_json_tells_everything(service: LocalService) -> None:
    """`--json` prints one object that programs can read."""
    assert json.loads(run("banner", "--json").output) == {
        "flagKey": "banner",
        "value": "Good morning",
        "reason": "default",
        "ruleId": None,
        "source": "server",
        "error": None,
    }


def test_a_default_is_not_passed_off_as_an_answer(service: LocalService) -> None:
    """An unknown flag and an outage give the default, say why, and end with status 1."""
    shown = run("nothing", "--default", "3")
    assert (shown.exit_code, shown.output) == (
        1,
        "3  (flag_not_found, from default: there is no flag 'nothing')\n",
    )
    service.stop()
    shown = run("banner", "--default", '"none"')
    assert (shown.exit_code, shown.output) == (
        1,
        '"none"  (error_fallback, from default: the service cannot be reached)\n',
    )


def test_a_wrong_key_is_told(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused key is told as that, without the key."""
    monkeypatch.setenv("SHIPSILENTLY_API_KEY", "sk_live_recognisable")
    shown = run("banner")
    assert (shown.exit_code, "the key is refused (HTTP 401)" in shown.output) == (1, True)
    assert "recognisable" not in shown.output


def test_without_a_key_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing key is a line that names the variable."""
    for name in ("SHIPSILENTLY_API_KEY", "SHIPSILENTLY_KEY"):
        monkeypatch.delenv(name, raising=False)
    shown = run("banner")
    assert shown.exit_code == 2
    assert shown.output == (
        "Error: api_key: is missing; set it, or the environment variable SHIPSILENTLY_API_KEY\n"
    )


@pytest.mark.parametrize(
    ("option", "example"), [("--context", '{"plan": "pro"}'), ("--default", "like '\"blue\"'")]
)
def test_what_is_not_json_is_one_line(option: str, example: str) -> None:
    """A mistake in JSON is told by its place, with an example of what belongs there."""
    shown = run("banner", option, '{"a": recognisable}')
    assert shown.exit_code == 2
    assert "is not JSON at character 7" in shown.output
    assert example in shown.output
    assert "recognisable" not in shown.output


def test_a_default_that_json_does_not_know_is_refused(service: LocalService) -> None:
    """A number that is none would make what `--json` prints no JSON."""
    shown = run("banner", "--default", "NaN", "--json")
    assert shown.exit_code == 2
    assert "is not JSON; quote it" in shown.output


@pytest.mark.parametrize(
    "words",
    [
        ("--context", "plan=pro"),
        ("--attr", "plan=pro"),
        ("--context", '{"age": 7}', "--attr", 'plan="pro"'),
    ],
)
def test_the_forms_of_the_frameworks_are_taken(
    service: LocalService, words: tuple[str, ...]
) -> None:
    """What `manage.py` and `flask` take as a context is one here as well, in any mixture."""
    assert run("checkout-v2", *words).output.startswith("true ")


def test_a_refused_call_without_a_cache_is_one_line(
    service: LocalService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that raises instead of serving what it knows ends with one line that says why."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "made_for_evaluate.py").write_text(
        "from shipsilently_core import Config, ShipSilentlyClient\n"
        "client = ShipSilentlyClient(Config(disable_cache=True))"
    )
    service.fault(status=503)
    shown = run("banner", "--app", "made_for_evaluate:client")
    assert (shown.exit_code, shown.output) == (2, "Error: the service failed (HTTP 503)\n")
