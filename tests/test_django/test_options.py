"""The dictionary `SHIPSILENTLY`: what is right counts, what is wrong is told."""

from typing import Any

import pytest
from shipsilently_django.options import Attribute, Options, Problem, nobody, read_options

from shipsilently_core import Config, ShipSilentlyClient
from shipsilently_core.testing import ScriptedService

KEY = {"API_KEY": "sk_test"}


def told(**settings: Any) -> list[Problem]:
    """What is wrong with some settings, beside a right key."""
    return list(read_options({**KEY, **settings}).problems)


def on_error(report: object) -> None:
    """A hook that a dotted path names."""


def test_right_settings_have_no_problem() -> None:
    """Django's own names and the core's are read, nested ones too."""
    reading = read_options(
        {
            "API_KEY": "sk_test",
            "API_URL": "https://flags.example.com/",
            "TIMEOUT": 1,
            "RETRY": {"BASE_DELAY": 2},
            "DEFAULTS": {"x": True},
            "HTTP_CLIENT": "tests.test_django.test_options.on_error",
            "ON_ERROR": "tests.test_django.test_options.on_error",
            "CONTEXT": "tests.test_django.test_options.on_error",
            "ATTRIBUTES": ["email", "plan:profile.plan"],
            "ANONYMOUS_ID": "cookie",
            "PREFETCH": True,
            "EXCLUDE_PATHS": ["/health"],
            "CLIENT_FLAGS": ["public-*"],
            "RAISE_IN_DEBUG": True,
            "OFFLINE": False,
        }
    )
    assert not reading.problems
    assert reading.options == Options(
        context=on_error,
        attributes=(Attribute("email", ("email",)), Attribute("plan", ("profile", "plan"))),
        anonymous_id="cookie",
        prefetch=True,
        exclude_paths=("/health",),
        client_flags=("public-*",),
        raise_in_debug=True,
        offline=False,
    )
    config = reading.config
    assert config is not None
    assert config.api_url == "https://flags.example.com"
    assert config.retry.base_delay == 2
    assert config.on_error is on_error
    assert config.http_client is on_error


def test_the_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty dictionary is enough where the environment holds the key."""
    monkeypatch.setenv("SHIPSILENTLY_API_KEY", "sk_of_environment")
    config = read_options({}).config
    assert config is not None
    assert config.api_key == "sk_of_environment"


@pytest.mark.parametrize("key", ["", " ", "sk_ä", "sk_one\nsk_two", 7])
def test_a_wrong_key_is_told_without_its_value(key: object) -> None:
    """E001 says what is wrong with a key, not what it is, and nothing is made of it."""
    reading = read_options({"API_KEY": key})
    (problem,) = reading.problems
    assert problem.code == "E001"
    assert problem.text.startswith("SHIPSILENTLY['API_KEY'] ")
    assert "sk_" not in problem.text
    assert problem.hint
    assert reading.config is None


def test_a_missing_key_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """E001 names the setting and the environment variable."""
    monkeypatch.delenv("SHIPSILENTLY_API_KEY", raising=False)
    monkeypatch.delenv("SHIPSILENTLY_KEY", raising=False)
    (problem,) = read_options({}).problems
    assert problem.code == "E001"
    assert "is missing" in problem.text
    assert "SHIPSILENTLY_API_KEY" in problem.hint


@pytest.mark.parametrize(
    ("given", "offline", "codes"),
    [
        ({}, True, []),
        ({"OFFLINE": True}, False, []),
        ({"OFFLINE": False}, True, ["E001"]),
        ({"API_KEY": ""}, True, ["E001"]),
        ({"TIMEOUT": 0}, True, ["E003"]),
        ({"API_URL": "nowhere"}, True, ["E003"]),
    ],
)
def test_offline_needs_no_key(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], offline: bool, codes: list[str]
) -> None:
    """Who asks no service needs no key; what is given has to be right all the same."""
    monkeypatch.delenv("SHIPSILENTLY_API_KEY", raising=False)
    monkeypatch.delenv("SHIPSILENTLY_KEY", raising=False)
    reading = read_options(given, offline=offline)
    assert [problem.code for problem in reading.problems] == codes
    assert (reading.config is None) is bool(codes and "TIMEOUT" not in given)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("TIMOUT", "Did you mean 'TIMEOUT'?"),
        ("api_kye", "Did you mean 'API_KEY'?"),
        ("CONTEXTS", "Did you mean 'CONTEXT'?"),
        ("zzz", "Known are A"),
        (7, "Known are "),
    ],
)
def test_an_unknown_setting_is_told_with_the_nearest(name: Any, hint: str) -> None:
    """E002 suggests the name that was meant."""
    (problem,) = read_options({**KEY, name: 1}).problems
    assert problem.code == "E002"
    assert problem.hint.startswith(hint)


@pytest.mark.parametrize(
    ("inner", "hint"),
    [("BASE_DELY", "Did you mean 'BASE_DELAY'?"), ("zzz", "Known are BASE_DELAY, ENABLED, ")],
)
def test_an_unknown_setting_inside_another_is_told_like_any(inner: str, hint: str) -> None:
    """E002 names it as one writes it, suggests the nearest, and the right ones beside it count."""
    reading = read_options({**KEY, "RETRY": {inner: 1, "MAX_DELAY": 7}})
    (problem,) = reading.problems
    assert problem.code == "E002"
    assert problem.text == f"SHIPSILENTLY['RETRY'][{inner!r}] is not a setting"
    assert problem.hint.startswith(hint)
    assert reading.config is not None
    assert reading.config.retry.max_delay == 7


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("TIMEOUT", 0, "must be more than 0 seconds"),
        ("TIMEOUT", "2", "must be a number of seconds"),
        ("RETRY", {"BASE_DELAY": -1}, "SHIPSILENTLY['RETRY']['BASE_DELAY'] must be more"),
        ("RETRY", 7, "must be a RetryConfig or a mapping"),
        ("DEFAULTS", ["x"], "must be a mapping"),
        ("API_URL", "ftp://x", "must start with https://"),
        ("HTTP_CLIENT", "nowhere.at_all", "cannot be imported"),
        ("ON_ERROR", "nowhere.at_all", "cannot be imported"),
        ("ON_ERROR", 7, "must be a callable"),
        ("CONTEXT", "nowhere.at_all", "cannot be imported"),
        ("CONTEXT", 7, "must be a callable"),
        ("CLIENT", 7, "must be a ShipSilentlyClient"),
        ("ATTRIBUTES", "email", "must be a list of strings"),
        ("ATTRIBUTES", ["plan:"], None),
        ("ATTRIBUTES", ["plan:a-b"], 'must hold names such as "email"'),
        ("ATTRIBUTES", [":email"], 'must hold names such as "email"'),
        ("ANONYMOUS_ID", "cookies", 'must be "session", "cookie" or None'),
        ("PREFETCH", "yes", "must be True or False"),
        ("OFFLINE", 1, "must be True, False or None"),
        ("OFFLINE", None, None),
        ("EXCLUDE_PATHS", ["health"], 'starting with "/"'),
        ("CLIENT_FLAGS", [1], "must be a list of strings"),
        ("RAISE_IN_DEBUG", None, "must be True or False"),
    ],
)
def test_a_wrong_value_is_told(name: str, value: object, text: str | None) -> None:
    """E003 names the setting and says what it must be."""
    problems = told(**{name: value})
    if text is None:
        assert not problems
        return
    (problem,) = problems
    assert problem.code == "E003"
    assert problem.text.startswith(f"SHIPSILENTLY[{name!r}]")
    assert text in problem.text


@pytest.mark.parametrize("given", [None, "sk_live_1", ["API_KEY"]])
def test_no_dictionary_is_told(given: object) -> None:
    """E004: the setting must be a dictionary."""
    (problem,) = read_options(given).problems
    assert problem.code == "E004"


def test_every_problem_is_told_at_once() -> None:
    """Nobody has to repair one setting to learn of the next."""
    problems = told(TIMEOUT=0, MAX_CONTEXTS=0, PREFETCH=1, API_KEY="", KEY="x")
    assert {problem.code for problem in problems} == {"E001", "E002", "E003"}
    assert len(problems) == 5


def test_what_is_right_counts_beside_what_is_wrong() -> None:
    """A wrong value is left out, and does not take the others with it."""
    reading = read_options({**KEY, "TIMEOUT": 0, "MAX_CONTEXTS": 7, "TYPO": 1})
    assert reading.config is not None
    assert reading.config.timeout == Config(api_key="sk").timeout
    assert reading.config.max_contexts == 7


def test_a_wrong_hook_does_not_become_the_default_one() -> None:
    """Where the hook cannot be used, no user's id is sent in its place."""
    reading = read_options({**KEY, "CONTEXT": "nowhere.at_all"})
    assert reading.options.context is nobody
    assert "flags are for nobody" in reading.problems[0].hint


def test_settings_that_are_wrong_together_are_told() -> None:
    """What is wrong only in combination is found as well."""
    (problem,) = told(RETRY={"BASE_DELAY": 50, "MAX_DELAY": 5})
    assert "retry" in problem.text.lower()


def test_a_client_stands_alone() -> None:
    """With CLIENT the core's settings have no effect, and that is told."""
    client = ShipSilentlyClient(api_key="sk_test", transport=ScriptedService())
    reading = read_options({"CLIENT": client, "PREFETCH": True})
    assert not reading.problems
    assert reading.options.client is client
    (problem,) = read_options({"CLIENT": client, "TIMEOUT": 1}).problems
    assert "'TIMEOUT'] has no effect beside CLIENT" in problem.text


def test_the_names_of_both_are_apart() -> None:
    """No name of Django's own hides one of the core's."""
    assert not set(Config.__struct_fields__) & set(Options.__struct_fields__)
