"""Prepare and conclude: the failure matrix without a network."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import Any

import pytest

from shipsilently_core import (
    Config,
    Context,
    EvaluationError,
    Failure,
    FailureReport,
    Reason,
    Source,
)
from shipsilently_core._evaluation import Attempt, Call, Evaluator
from shipsilently_core._view import UNSET, View
from shipsilently_core._wire import Reply
from shipsilently_core.testing import ManualClock
from tests.core.support import fixed, held_by_nobody

WHO = Context(user_id="u1")
JSON = {"content-type": "application/json"}


class Bench:
    """An evaluator, its clock, and what it reported."""

    def __init__(self, **settings: Any) -> None:
        self.clock = ManualClock()
        self.reports: list[FailureReport] = []
        config = Config(**{"api_key": "sk_x", **settings})
        self.evaluator = Evaluator(config, self.clock, fixed(), self.reports.append)

    def batch(self, flags: Mapping[str, Any], who: Context = WHO, reason: str = "default") -> View:
        rows = {key: {"value": value, "reason": reason} for key, value in flags.items()}
        return self.answer(Reply(200, json.dumps({"flags": rows}).encode(), JSON), who)

    def answer(self, reply: Reply, who: Context = WHO, flag: str | None = None) -> View:
        return self.evaluator.conclude(self.evaluator.prepare(who, flag), reply)

    def fail(self, who: Context = WHO, flag: str | None = None) -> View:
        return self.answer(Reply(500), who, flag)


def shown(view: View) -> dict[str, tuple[Any, str, Source]]:
    return {k: (r.value, r.reason, r.source) for k, r in view.results().items()}


def test_a_success_is_served_from_the_server() -> None:
    """The answer's own reason and rule reach the caller."""
    bench = Bench()
    body = b'{"flags":{"a":{"value":1,"reason":"rollout","ruleId":"r1"}}}'
    result = bench.answer(Reply(200, body, JSON)).results()["a"]
    assert (result.value, result.reason, result.rule_id) == (1, Reason.ROLLOUT, "r1")
    assert (result.source, result.error) == (Source.SERVER, None)
    assert bench.reports == []


def test_after_a_failure_the_order_is_own_baseline_default() -> None:
    """This context's last known good value, then the baseline, then the declared default."""
    bench = Bench(defaults={"own": 0, "base": 0, "nowhere": 0})
    bench.batch({"own": "base", "base": "base"}, bench.evaluator.baseline)
    bench.batch({"own": "mine"})
    view = bench.fail()
    assert shown(view) == {
        "own": ("mine", Reason.ERROR_FALLBACK, Source.CACHE),
        "base": ("base", Reason.ERROR_FALLBACK, Source.BASELINE),
        "nowhere": (0, Reason.ERROR_FALLBACK, Source.DEFAULT),
    }
    errors = {key: result.error for key, result in view.results().items()}
    assert errors == {"own": None, "base": None, "nowhere": Failure.SERVER}


@pytest.mark.parametrize(
    ("reason", "crosses"),
    [
        ("default", True),
        ("flag_disabled", True),
        ("rule_match", False),
        ("rollout", False),
        ("flag_not_found", False),
        ("scheduled", False),
    ],
)
def test_only_impersonal_values_cross_contexts(reason: str, crosses: bool) -> None:
    """Of the baseline nothing is shown to others that a personal rule made."""
    bench = Bench()
    bench.batch({"a": "base"}, bench.evaluator.baseline, reason)
    view = bench.fail()
    assert ("a" in view.results()) is crosses
    detail = bench.evaluator.detail(view, "a", "default")
    assert detail.value == ("base" if crosses else "default")


def test_the_baseline_stands_in_for_a_context_that_is_not_known_yet() -> None:
    """A read without the network shows the baseline's values with their own reason."""
    bench = Bench()
    bench.batch({"a": "base"}, bench.evaluator.baseline, "flag_disabled")
    view = bench.evaluator.known(WHO)
    assert shown(view) == {"a": ("base", Reason.FLAG_DISABLED, Source.BASELINE)}


def test_a_whole_answer_is_the_whole_truth() -> None:
    """What a context's batch lacks does not exist for it, whatever the baseline says."""
    bench = Bench()
    bench.batch({"old": 1}, bench.evaluator.baseline)
    view = bench.batch({"new": 1})
    assert set(view.results()) == {"new"}
    result = bench.evaluator.detail(view, "old", "default")
    assert (result.value, result.reason, result.error) == (
        "default",
        Reason.FLAG_NOT_FOUND,
        Failure.NOT_FOUND,
    )


def test_an_unknown_flag_is_told_once_and_reported_each_time(lines: list[Any]) -> None:
    """A missing flag costs one log line, however often it is read."""
    bench = Bench()
    view = bench.batch({})
    for _ in range(1_000):
        bench.evaluator.detail(view, "missing", False)
    assert len(lines) == 1
    assert len(bench.reports) == 1_000
    assert bench.reports[0].failure is Failure.NOT_FOUND
    assert bench.reports[0].flag_key == "missing"


def test_a_404_is_definitive() -> None:
    """An unknown flag gives the default at once, also where a value is remembered."""
    bench = Bench()
    bench.batch({"a": 1})
    view = bench.answer(Reply(404), flag="a")
    result = bench.evaluator.concluded_detail("a", view, 5)
    assert (result.value, result.reason, result.source, result.error) == (
        5,
        Reason.FLAG_NOT_FOUND,
        Source.DEFAULT,
        Failure.NOT_FOUND,
    )
    assert bench.evaluator.gate.admit(WHO.body) is None


def test_a_404_on_the_batch_is_a_wrong_answer() -> None:
    """Where no single flag was asked for, a 404 says that this is not the service."""
    assert Bench().answer(Reply(404)).failure is Failure.PROTOCOL


def test_a_404_that_broke_off_is_no_404() -> None:
    """An answer that did not arrive whole is a failure of its own class."""
    view = Bench().answer(Reply(404, failure=Failure.NETWORK), flag="a")
    assert view.failure is Failure.NETWORK


def test_equal_answers_are_decoded_once() -> None:
    """Two contexts with the same answer share one snapshot."""
    bench = Bench()
    one = bench.batch({"a": 1})
    other = bench.batch({"a": 1}, Context(user_id="u2"))
    assert one.own is not None
    assert one.own is other.own


def test_a_malformed_row_is_told_and_keeps_its_value(lines: list[Any]) -> None:
    """One warning names the first malformed flag; its last known good value stays."""
    bench = Bench()
    bench.batch({"a": 1, "b": 1})
    body = b'{"flags":{"a":{"value":2},"b":{"value":2,"reason":"default"}}}'
    view = bench.answer(Reply(200, body, JSON))
    assert {k: r.value for k, r in view.results().items()} == {"a": 1, "b": 2}
    assert view.failure is None
    (line,) = lines
    assert "'a'" in line.getMessage()
    bench.answer(Reply(200, body, JSON))
    assert len(lines) == 1


def test_what_is_handed_out_can_be_changed() -> None:
    """A caller that changes an object it was served changes nothing for anybody else."""
    bench = Bench(defaults={"default": {"n": [1]}})
    view = bench.batch({"object": {"n": [1]}, "array": [1]})
    failed = bench.fail()
    for seen in (view, failed):
        results = seen.results()
        results["object"].value["n"].append(2)
        results["array"].value.append(2)
        bench.evaluator.detail(seen, "object", {}).value["n"].append(2)
    failed.results()["default"].value["n"].append(2)
    assert view.results()["object"].value == {"n": [1]}
    assert view.results()["array"].value == [1]
    assert failed.results()["object"].value == {"n": [1]}
    assert failed.results()["default"].value == {"n": [1]}
    view.results().clear()
    assert view.results()


def test_nothing_is_sent_before_retry_after_has_passed() -> None:
    """After a 429 the call is refused without a request, and then allowed again."""
    bench = Bench()
    bench.answer(Reply(429, headers={"retry-after": "5"}))
    for flag in (None, "a"):
        call = bench.evaluator.prepare(WHO, flag)
        assert call.request is None
        assert call.refused is Failure.THROTTLED
        assert bench.evaluator.conclude(call, None).failure is Failure.THROTTLED
    bench.clock.advance(5)
    assert bench.evaluator.prepare(WHO).request is not None


def test_nothing_is_sent_once_it_is_closed() -> None:
    """After the end a call is refused, and what is known is served."""
    bench = Bench()
    bench.batch({"a": 1})
    bench.evaluator.closed = True
    bench.clock.advance(1_000)
    call = bench.evaluator.prepare(WHO)
    assert call.request is None
    view = bench.evaluator.conclude(call, None)
    assert view.failure is Failure.NETWORK
    assert view.results()["a"].value == 1
    entered = bench.evaluator.enter(WHO, may_wait=True)
    assert isinstance(entered, View)
    assert entered.failure is Failure.NETWORK


@pytest.mark.parametrize("key", [5, "\ud800"], ids=repr)
def test_a_key_that_cannot_be_sent_does_not_exist(key: Any) -> None:
    """It gives the default as an unknown flag does, without a request."""
    bench = Bench()
    call = bench.evaluator.prepare(WHO, key)
    assert call.request is None
    view = bench.evaluator.conclude(call, None)
    result = bench.evaluator.concluded_detail(key, view, "default")
    assert (result.value, result.error) == ("default", Failure.NOT_FOUND)


def test_without_a_cache_a_failure_raises() -> None:
    """With `disable_cache` a failed call is an exception with its class and status."""
    bench = Bench(disable_cache=True)
    bench.batch({"a": 1})
    with pytest.raises(EvaluationError) as caught:
        bench.fail(flag="a")
    error = caught.value
    assert (error.failure, error.status, error.flag_key) == (Failure.SERVER, 500, "a")
    assert bench.answer(Reply(404), flag="a").failure is Failure.NOT_FOUND


def test_without_a_cache_nothing_is_fresh() -> None:
    """With `disable_cache` a request asks each time."""
    bench = Bench(disable_cache=True)
    bench.batch({"a": 1})
    assert not isinstance(bench.evaluator.enter(WHO, may_wait=True), View)


def test_a_default_that_is_left_out_is_the_declared_one() -> None:
    """The caller's default wins, then the declared one, then the method's own."""
    evaluator = Bench(defaults={"a": 1}).evaluator
    assert evaluator.default("a", 2) == 2
    assert evaluator.default("a", None) is None
    assert evaluator.default("a", UNSET) == 1
    assert evaluator.default("b", UNSET) is None
    assert evaluator.default("b", UNSET, False) is False
    assert repr(UNSET) == "UNSET"


def test_attributes_that_cannot_be_sent_are_told_once(lines: list[Any]) -> None:
    """The warning names the attribute and never its value."""
    evaluator = Bench().evaluator
    for _ in range(3):
        evaluator.context({"bad": ["hidden"], "good": 1})
    (line,) = lines
    assert "'bad'" in line.getMessage()
    assert "hidden" not in line.getMessage()


MESSAGES = [
    (Reply(failure=Failure.TIMEOUT), "the service did not answer in time"),
    (
        Reply(failure=Failure.NETWORK, cause="ConnectError"),
        "the service could not be reached (ConnectError)",
    ),
    (Reply(401), "the service refused the API key (HTTP 401)"),
    (Reply(429), "the service asked for a pause (HTTP 429)"),
    (Reply(503), "the service failed (HTTP 503)"),
    (
        Reply(failure=Failure.PROTOCOL, cause="more than 5 bytes"),
        "the service's answer could not be read (more than 5 bytes)",
    ),
    (
        Reply(200, b"<html>", {"content-type": "text/html"}),
        "the service's answer is not the promised JSON (HTTP 200, text/html)",
    ),
    (
        Reply(204),
        "the service's answer is not the promised JSON (HTTP 204, no content type)",
    ),
    (
        Reply(200, failure=Failure.PROTOCOL, cause="no stream"),
        "the service's answer is not the promised JSON (HTTP 200, no content type; no stream)",
    ),
]


@pytest.mark.parametrize(("reply", "message"), MESSAGES)
def test_a_failure_says_what_happened_in_one_line(reply: Reply, message: str) -> None:
    """Each class of failure has a line for people, with the status and the content type."""
    bench = Bench()
    bench.answer(reply)
    (report,) = bench.reports
    assert report.message == message
    assert report.status == reply.status


def test_a_content_type_of_any_length_makes_a_short_line() -> None:
    """What a server claims does not flood the log."""
    bench = Bench()
    bench.answer(Reply(200, b"", {"content-type": "x" * 60_000}))
    assert len(bench.reports[0].message) < 300


class TestRequests:
    """Entering and leaving as a request does."""

    def lead(self, bench: Bench, who: Context = WHO) -> Attempt:
        step = bench.evaluator.enter(who, may_wait=True)
        assert not isinstance(step, View)
        attempt, leads = step
        assert leads
        return attempt

    def test_what_is_fresh_needs_no_network(self) -> None:
        """Within its age an entry is served as it is, from the cache, without a failure."""
        bench = Bench()
        bench.batch({"a": 1})
        view = bench.evaluator.enter(WHO, may_wait=True)
        assert isinstance(view, View)
        assert shown(view) == {"a": (1, Reason.DEFAULT, Source.CACHE)}
        assert view.failure is None

    def test_one_leads_and_the_others_join(self) -> None:
        """The second request for a context joins the first one's attempt."""
        bench = Bench()
        attempt = self.lead(bench)
        assert bench.evaluator.enter(WHO, may_wait=True) == (attempt, False)
        other = self.lead(bench, Context(user_id="u2"))
        assert other is not attempt

    def test_who_cannot_wait_gets_what_is_known(self) -> None:
        """In an event loop a plain read neither leads nor joins."""
        bench = Bench()
        view = bench.evaluator.enter(WHO, may_wait=False)
        assert isinstance(view, View)
        assert view.failure is Failure.TIMEOUT

    def test_nobody_joins_an_attempt_from_before_a_change(self) -> None:
        """After the service's word of a change a request starts anew."""
        bench = Bench()
        old = self.lead(bench)
        bench.evaluator.cache.invalidate()
        new = self.lead(bench)
        assert new is not old
        bench.evaluator.abandon(old)
        assert bench.evaluator.enter(WHO, may_wait=True) == (new, False)

    def test_nobody_joins_an_attempt_beyond_its_deadline(self) -> None:
        """An attempt that should have ended long ago is not waited for."""
        bench = Bench()
        old = self.lead(bench)
        bench.clock.advance(2.25)
        assert self.lead(bench) is not old

    def test_patience_ends_with_the_deadline(self) -> None:
        """Who joins late waits only for what is left."""
        bench = Bench(timeout=2)
        attempt = self.lead(bench)
        assert bench.evaluator.patience(attempt) == 2.25
        bench.clock.advance(2)
        assert bench.evaluator.patience(attempt) == 0.25
        bench.clock.advance(2)
        assert bench.evaluator.patience(attempt) == 0

    def test_the_end_is_told_to_all(self) -> None:
        """A finished attempt holds the view, and the next request does not join it."""
        bench = Bench()
        attempt = self.lead(bench)
        bench.evaluator.finish(attempt, Reply(500))
        assert attempt.wait(0)
        assert attempt.result is not None
        assert attempt.result.failure is Failure.SERVER
        view = bench.evaluator.enter(WHO, may_wait=True)
        assert isinstance(view, View)
        assert view.failure is Failure.SERVER
        bench.clock.advance(0.5)
        self.lead(bench)

    def test_an_interrupted_leader_lets_another_lead(self) -> None:
        """An abandoned attempt has no result, and costs no cool-down, however long it took."""
        bench = Bench()
        attempt = self.lead(bench)
        bench.clock.advance(0.5)
        bench.evaluator.abandon(attempt)
        assert attempt.wait(0)
        assert attempt.result is None
        self.lead(bench)

    def test_one_that_had_waited_for_long_has_failed(self, lines: list[logging.LogRecord]) -> None:
        """Else each request would be cut off whose own limit is shorter than a call's deadline."""
        bench = Bench()
        for number in range(3):
            attempt = self.lead(bench, Context(user_id=f"u{number}"))
            bench.clock.advance(0.5)
            bench.evaluator.abandon(attempt, cut_off=True)
            assert attempt.result is None
        view = bench.evaluator.enter(WHO, may_wait=True)
        assert isinstance(view, View)
        assert view.failure is Failure.TIMEOUT
        assert bench.evaluator.gate.closed is Failure.TIMEOUT
        assert bench.evaluator.tally.failures == {Failure.TIMEOUT: 3}
        assert [line.getMessage() for line in lines] == [
            "the service did not answer in time; nothing is known yet, so defaults are served"
        ]

    def test_a_conclusion_that_raises_still_releases_the_others(self) -> None:
        """Whatever happens while an attempt is concluded, nobody goes on waiting for it."""

        def interrupted(report: FailureReport) -> None:
            raise KeyboardInterrupt

        bench = Bench()
        attempt = self.lead(bench)
        bench.evaluator._report = interrupted
        with pytest.raises(KeyboardInterrupt):
            bench.evaluator.finish(attempt, Reply(500))
        assert attempt.wait(0)
        assert attempt.result is None

    def test_a_closed_gate_wakes_the_background(self) -> None:
        """The failure that closes the gate wakes who probes; the next ones do not."""
        bench = Bench()
        woken: list[int] = []
        bench.evaluator.wake = lambda: woken.append(1)
        bench.answer(Reply(failure=Failure.NETWORK, connected=False))
        bench.answer(Reply(failure=Failure.NETWORK, connected=False))
        assert woken == [1]

    def test_a_forked_child_begins_with_what_is_known(self) -> None:
        """In a child no attempt of the parent is joined, and values are kept."""
        bench = Bench()
        bench.batch({"a": 1})
        bench.clock.advance(100)
        attempt = self.lead(bench)
        held_by_nobody(bench.evaluator._lock)
        bench.evaluator.renew()
        assert self.lead(bench) is not attempt
        assert bench.evaluator.known(WHO).results()["a"].value == 1


def test_a_flag_of_another_type_is_not_served() -> None:
    """A mismatch gives the default with its own failure, whatever the source."""
    bench = Bench()
    view = bench.batch({"a": "yes"})
    for seen in (view, bench.fail()):
        result = bench.evaluator.detail(seen, "a", False)
        assert (result.value, result.error) == (False, Failure.TYPE_MISMATCH)
        assert (result.reason, result.source) == (Reason.ERROR_FALLBACK, Source.DEFAULT)


def test_recovery_is_told_with_what_is_held(lines: list[Any]) -> None:
    """One line when it breaks and one when it works again."""
    bench = Bench()
    bench.fail()
    bench.clock.advance(3)
    bench.batch({"a": 1})
    assert [line.getMessage() for line in lines] == [
        "the service failed (HTTP 500); nothing is known yet, so defaults are served",
        "the service answers again after 3 s; 1 contexts are held",
    ]


def test_a_failure_is_told_with_what_serves_meanwhile(lines: list[Any]) -> None:
    """Last known good values, what was shipped with the app, or nothing but defaults."""
    held, cold = Bench(), Bench()
    shipped = Bench(bootstrap={"a": {"value": True}})
    held.batch({"a": 1})
    for bench in (held, cold, shipped):
        bench.fail()
    assert [line.getMessage().partition("; ")[2] for line in lines] == [
        "last known good values are served",
        "nothing is known yet, so defaults are served",
        "nothing is known yet, so the values that were shipped are served",
    ]


def test_a_call_is_a_value() -> None:
    """What was prepared does not change until it is concluded."""
    call = Bench().evaluator.prepare(WHO, "a")
    assert isinstance(call, Call)
    with pytest.raises(AttributeError):
        call.flag_key = "b"  # type: ignore[misc]


def test_only_an_answer_says_that_the_service_knows_no_flag(lines: list[logging.LogRecord]) -> None:
    """Before the first answer nothing is known; each of the two is told once for a flag."""
    bench = Bench()
    for _ in range(2):
        bench.evaluator.detail(bench.evaluator.known(WHO), "b", 1)
    bench.batch({"a": 1})
    for _ in range(2):
        bench.evaluator.detail(bench.evaluator.known(WHO), "b", 1)
    assert [line.getMessage() for line in lines] == [
        "nothing is known of flag 'b' yet; the default is served",
        "the service knows no flag 'b'; the default is served",
    ]


def test_an_answer_that_was_overtaken_is_not_shown_to_its_caller_either() -> None:
    """Whoever asked for one flag sees what everybody will see next, not what came late."""
    bench = Bench()
    early = bench.evaluator.prepare(WHO, "a")
    bench.batch({"a": "newer"})
    view = bench.evaluator.conclude(
        early, Reply(200, b'{"value":"older","reason":"default"}', JSON)
    )
    assert bench.evaluator.concluded_detail("a", view, "").value == "newer"
    gone = bench.evaluator.prepare(WHO, "b")
    bench.batch({"a": "newer"})
    view = bench.evaluator.conclude(gone, Reply(200, b'{"value":"it","reason":"default"}', JSON))
    assert bench.evaluator.concluded_detail("b", view, "").value == "it"


def test_a_context_that_is_none_is_told_as_one(lines: list[Any]) -> None:
    """The log says that all of it is missing, and of what type it was, not what it held."""
    given: Any = "sk_secret"
    Bench().evaluator.context(given)
    assert [line.getMessage() for line in lines] == [
        "a context was left out as a whole: a str cannot be read as a mapping"
    ]
