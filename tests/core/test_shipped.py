"""Settings that bring something along: stores, and results that were shipped with an app."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from shipsilently_core import Config, ConfigurationError, Failure, Reason, Source
from shipsilently_core.stores import FileStore, MemoryStore
from shipsilently_core.stores_redis import RedisStore
from tests.core.support import KEY, setup

WHO = {"userId": "u1"}
SECRET = "hunter2"


def config(**settings: Any) -> Config:
    """Settings with a key."""
    return Config(api_key=KEY, **settings)


# Stores.


@pytest.mark.parametrize("given", [None, False, "false"])
def test_without_a_store_there_is_none(given: Any) -> None:
    """Nothing is kept unless it is asked for."""
    assert config(store=given).store is None


def test_a_store_can_be_meant_in_several_ways(tmp_path: Path) -> None:
    """True, paths and addresses stand for stores, and a store for itself."""
    memory = MemoryStore()
    assert config(store=memory).store is memory
    for word in (True, "true", "True"):
        assert repr(config(store=word).store) == "FileStore()"
    for given in (tmp_path / "flags", str(tmp_path / "flags")):
        store = config(store=given).store
        assert isinstance(store, FileStore)
        assert store.path("name") == tmp_path / "flags"
    for address in ("redis://localhost/0", "rediss://localhost", "valkey://h:1", "unix:///run/x"):
        assert isinstance(config(store=address).store, RedisStore)
    assert Config.from_mapping({"API_KEY": KEY, "STORE": str(tmp_path)}).store is not None


@pytest.mark.parametrize(
    "given",
    ["", 5, object(), FileStore, f"memcached://user:{SECRET}@localhost", b"flags", []],
    ids=["empty", "number", "object", "class", "address", "bytes", "list"],
)
def test_what_is_no_store_is_refused(given: Any) -> None:
    """The error names the setting and what it may be, and shows no address."""
    with pytest.raises(ConfigurationError, match=r"^store: must be") as caught:
        config(store=given)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("deadline", None),
        ("deadline", float("inf")),
        ("load_deadline", float("nan")),
        ("interval", "10"),
        ("interval", float("inf")),
        ("interval", -1.0),
        ("max_contexts", 1.5),
        ("max_contexts", True),
        ("max_bytes", -1),
    ],
)
def test_what_a_store_says_of_itself_is_checked(attribute: str, value: object) -> None:
    """When the settings are, and not where a request or its own thread would have to wait so."""
    store = MemoryStore()
    setattr(store, attribute, value)
    with pytest.raises(ConfigurationError, match=f"store {attribute}"):
        Config(api_key="sk_test", store=store)
    setattr(store, attribute, 0)
    assert Config(api_key="sk_test", store=store).store is store


def test_redis_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without redis-py, an address of Redis is refused at the start, with the command to run."""
    monkeypatch.setitem(sys.modules, "redis", None)
    with pytest.raises(ConfigurationError, match="pip install redis"):
        config(store=f"redis://:{SECRET}@localhost")


def test_neither_settings_nor_stores_show_where_they_are() -> None:
    """An address with a password is in no repr."""
    shown = config(store=f"redis://:{SECRET}@localhost")
    assert SECRET not in repr(shown) + repr(shown.store)


# Results.


@pytest.mark.parametrize(
    "given",
    [
        {"flags": {"a": {"value": 1, "reason": "default"}, "b": {"value": {"n": [1]}}}},
        {"a": {"value": 1}, "b": {"value": {"n": [1]}, "reason": "default", "ruleId": None}},
    ],
    ids=["document", "rows"],
)
@pytest.mark.parametrize("form", ["mapping", "file"])
def test_shipped_results_are_served_where_nothing_else_is_known(
    given: Any, form: str, tmp_path: Path
) -> None:
    """Below the baseline and above the defaults, as a mapping or from a file."""
    if form == "file":
        if "flags" not in given:
            given = {"flags": given}
        for row in given["flags"].values():
            row.setdefault("reason", "default")
        (tmp_path / "flags.json").write_text(json.dumps(given), "utf-8")
        given = tmp_path / "flags.json"
    s = setup({"a": 2}, bootstrap=given, defaults={"a": 0, "c": 3})
    s.service.fail(503)
    result = s.client.flags(WHO).detail("a")
    assert (result.value, result.source, result.reason, result.error, result.age) == (
        1,
        Source.BOOTSTRAP,
        Reason.ERROR_FALLBACK,
        None,
        None,
    )
    everything = s.client.evaluate_all(WHO)
    assert {key: (r.value, r.source) for key, r in everything.items()} == {
        "a": (1, Source.BOOTSTRAP),
        "b": ({"n": [1]}, Source.BOOTSTRAP),
        "c": (3, Source.DEFAULT),
    }
    assert s.client.get("b", None, WHO) == {"n": [1]}
    assert s.client.flags(WHO).detail("d", 5).error == Failure.SERVER


def test_what_the_service_says_goes_before_what_was_shipped() -> None:
    """An answer is the whole truth, also about flags that it lacks; the baseline goes before."""
    s = setup({"a": 2}, bootstrap={"a": {"value": 1}, "gone": {"value": 1}})
    flags = s.client.flags(WHO)
    assert (flags.get("a"), flags.get("gone", 0)) == (2, 0)
    s.client.evaluate_all({"userId": "system"})
    s.service.fail(503)
    assert s.client.flags({"userId": "new"}).detail("a", 0).source == Source.BASELINE
    assert s.client.flags({"userId": "new"}).detail("gone", 0).source == Source.BOOTSTRAP


def test_results_of_a_running_client_can_be_shipped() -> None:
    """What `evaluate_all` gives, `bootstrap` takes; what a rule decided serves nobody else."""
    one = setup({"a": 1, "b": "x"})
    results = one.client.evaluate_all()
    two = setup(bootstrap=results)
    two.service.fail(503)
    assert two.client.flags(WHO).get("a") == 1
    ruled = setup(bootstrap={"a": {"value": 1, "reason": "rule_match", "ruleId": "r"}})
    ruled.service.fail(503)
    assert ruled.client.flags(WHO).get("a", 7) == 7


def test_shipped_results_keep_their_type_check() -> None:
    """A shipped value of another type than the default's is not served."""
    s = setup(bootstrap={"a": {"value": "yes"}})
    s.service.fail(503)
    assert s.client.flags(WHO).detail("a", False).error == Failure.TYPE_MISMATCH


def test_settings_with_shipped_results_can_be_copied() -> None:
    """`msgspec.structs.replace` keeps what was read."""
    first = config(bootstrap={"a": {"value": 1}})
    assert structs.replace(first, timeout=1.0).bootstrap is first.bootstrap
    assert config(bootstrap=None).bootstrap is None
    assert set(config(bootstrap={}).bootstrap.rows) == set()


def test_a_flag_may_be_called_flags() -> None:
    """Results by key are told from a document even then."""
    found = config(bootstrap={"flags": {"value": True}}).bootstrap
    assert found.rows["flags"].value is True


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (5, "must be a mapping or the path of a file, not int"),
        ({5: {"value": 1}}, "flag keys must be strings"),
        ({"a": True}, "plain values belong into defaults"),
        ({"a": {"valeu": 1}}, "plain values belong into defaults"),
        ({"a": {"value": SECRET, "reason": 5}}, "needs a value and a reason"),
        ({"a": {"value": object()}}, "JSON has no form for"),
        ({"a": {"value": "\ud800"}}, "JSON has no form for"),
    ],
    ids=["number", "key", "plain", "misspelt", "reason", "object", "surrogate"],
)
def test_shipped_results_that_cannot_be_read_are_refused(given: Any, what: str) -> None:
    """The error names the flag and what is missing, and shows no value."""
    with pytest.raises(ConfigurationError, match=r"^bootstrap") as caught:
        config(bootstrap=given)
    assert what in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_file_that_cannot_be_read_is_refused_at_the_start(tmp_path: Path) -> None:
    """No file, a folder, and a file of something else are told apart."""
    with pytest.raises(ConfigurationError, match=r"cannot be read from .*missing.json"):
        config(bootstrap=tmp_path / "missing.json")
    with pytest.raises(ConfigurationError, match=r"Is a directory|Permission denied"):
        config(bootstrap=str(tmp_path))
    (tmp_path / "flags.json").write_text(f'["{SECRET}"]', "utf-8")
    with pytest.raises(ConfigurationError, match="is not the JSON that") as caught:
        config(bootstrap=tmp_path / "flags.json")
    assert SECRET not in str(caught.value)


# Ages.


def test_ages_are_checked() -> None:
    """Ages are seconds, from 0."""
    assert config(max_stale=0).max_stale == 0.0
    assert config(max_stale_per_flag={"a": 5}).max_stale_per_flag == {"a": 5.0}


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"max_stale": -1}, "max_stale: must be at least 0 seconds"),
        ({"max_stale": "1"}, "max_stale: must be a number of seconds"),
        (
            {"max_stale_per_flag": [1]},
            "max_stale_per_flag: must be a mapping from flags to seconds",
        ),
        ({"max_stale_per_flag": {1: 1}}, "max_stale_per_flag: flag keys must be strings"),
        ({"max_stale_per_flag": {"a": -1}}, r"max_stale_per_flag\['a'\]: must be at least 0"),
    ],
)
def test_ages_that_are_none_are_refused(settings: dict[str, Any], error: str) -> None:
    """The error names the setting, and the flag where it is one's."""
    with pytest.raises(ConfigurationError, match=f"^{error}"):
        config(**settings)
