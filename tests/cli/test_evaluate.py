"""`shipsilently evaluate`."""

import json

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
        "3  (flag_not_found, from default, because of not_found)\n",
    )
    service.stop()
    shown = run("banner", "--default", '"none"')
    assert (shown.exit_code, shown.output) == (
        1,
        '"none"  (error_fallback, from default, because of network)\n',
    )


def test_a_wrong_key_is_told(service: LocalService, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused key is told as that, without the key."""
    monkeypatch.setenv("SHIPSILENTLY_API_KEY", "sk_live_recognisable")
    shown = run("banner")
    assert (shown.exit_code, "because of auth" in shown.output) == (1, True)
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


@pytest.mark.parametrize("option", ["--context", "--default"])
def test_what_is_not_json_is_one_line(option: str) -> None:
    """A mistake in JSON is told by its place."""
    shown = run("banner", option, '{"a": recognisable}')
    assert shown.exit_code == 2
    assert "is not JSON at character 7" in shown.output
    assert "recognisable" not in shown.output
