"""What the service answers: whether it is the service, takes the key, how fast, and its clock."""

from __future__ import annotations

import statistics
import time
from email.utils import parsedate_to_datetime

from shipsilently_core import Context, Failure
from shipsilently_core._wire import (
    Reply,
    Request,
    batch_request,
    evaluate_request,
    parse_batch,
)

from .findings import Checks, Finding, failure, ok, skipped, warning
from .session import Session, seconds

__all__ = ["check", "is_page"]

#: A flag that surely does not exist: asking for it counts nowhere.
_NO_FLAG = "shipsilently-doctor-no-such-flag"

_SAMPLES, _FEW_SAMPLES = 10, 3

#: Seconds of difference between two clocks that are worth a word.
_SKEW = 30.0


def check(session: Session) -> Checks:
    """Whether what answers is the service, and is content with the key."""
    context = Context(session.config.baseline_context)
    one, all_flags = evaluate_request(_NO_FLAG, context), batch_request(context)
    assert one is not None
    reply, took = session.timed(one)
    session.skew = _skew(reply, took)
    wrong = _wrong(reply, session, one)
    if wrong is not None:
        if wrong.check == "access":
            yield ok("service", _answered(reply))
        yield wrong
        return False
    reply, _ = session.timed(all_flags)
    wrong = _wrong(reply, session, all_flags)
    parsed = None if reply.status != 200 else parse_batch(reply.body)
    if wrong is None and parsed is None:
        wrong = failure(
            "service",
            f"{_answered(reply)} to {all_flags.path}, but not with the flags",
            "Something else answers at this address: correct api_url.",
        )
    if wrong is not None or parsed is None:
        assert wrong is not None
        yield wrong
        return False
    rows, malformed = parsed
    session.flags = frozenset(rows)
    if malformed:
        yield warning(
            "service",
            f"answers, but {len(malformed)} of {len(rows) + len(malformed)} flags are malformed: "
            f"{', '.join(sorted(malformed)[:5])}",
            "Their last good values, else the defaults, are served: report it to the service.",
        )
    else:
        count = len(rows)
        yield ok("service", f"answers with JSON: {count} flag{'' if count == 1 else 's'}")
    yield ok("access", "the key is accepted")
    yield _latency(session, one, all_flags)
    yield _clock(session)
    return True


def is_page(reply: Reply) -> bool:
    """Whether an answer is a page for people."""
    kind = reply.headers.get("content-type", "").lower()
    return "html" in kind or reply.body.lstrip()[:1] == b"<"


def _answered(reply: Reply) -> str:
    return f"answers (HTTP {reply.status})"


def _wrong(reply: Reply, session: Session, request: Request) -> Finding | None:
    """What an answer says is wrong, where it does."""
    status = reply.status
    if status is None or reply.failure is not None:
        return _no_answer(reply, seconds(session.config.timeout))
    if status == 407:
        return failure(
            "service",
            "the proxy wants a user and a password (HTTP 407)",
            "Write them into the variable: http://user:password@proxy:port.",
        )
    if status >= 500:
        return failure(
            "service",
            f"fails with HTTP {status}",
            "The service, or a proxy before it, is down: look at its status page. Your app "
            "meanwhile serves what it knows, else its defaults.",
        )
    if is_page(reply):
        return failure(
            "service",
            f"answers with an HTML page (HTTP {status}), not with JSON",
            "A proxy, a sign-in page or another site answers at this address: correct api_url, "
            "or what stands between.",
        )
    if status == 403 and session.proxied and reply.body[:1] != b"{":
        return failure(
            "service",
            "the proxy, or what it leads to, refuses (HTTP 403)",
            "Have the service's host allowed on the proxy, or name it in NO_PROXY.",
        )
    if status in (401, 403):
        return failure(
            "access",
            f"the key is refused (HTTP {status})",
            "Copy the SDK key of the right environment from the dashboard; it may have been "
            "replaced.",
        )
    if status == 402:
        return failure(
            "access", "the plan does not cover this (HTTP 402)", "Look at the plan's limits."
        )
    if status == 429:
        return failure(
            "access",
            "the service asks to be left alone for a while (HTTP 429)",
            "Something asks too often with this key: one client per process is enough; look for "
            "others.",
        )
    if 300 <= status < 400:
        return failure(
            "service",
            f"sends us elsewhere (HTTP {status}), which the client does not follow",
            "Write the final address into api_url, without a trailing path.",
        )
    if status != 200 and not (status == 404 and b"flagKey" in request.body):
        return failure(
            "service",
            f"answers HTTP {status} to {request.path}",
            "Another service answers at this address, or its path is wrong: correct api_url.",
        )
    return None


def _no_answer(reply: Reply, limit: str) -> Finding:
    if reply.failure is Failure.TIMEOUT:
        return failure(
            "service",
            f"no answer within {limit}, the deadline",
            "The service, or something before it, hangs. If it is only slow, raise `timeout`.",
        )
    if reply.failure is Failure.PROTOCOL:
        return failure(
            "service",
            f"its answer cannot be read ({reply.cause})",
            "Something on the way changes answers, or it is not HTTP: correct api_url.",
        )
    return failure(
        "service",
        f"the connection ended without an answer ({reply.cause or 'unknown'})",
        "Something on the way cuts connections: a proxy, a firewall, or a crashed server.",
    )


def _latency(session: Session, one: Request, all_flags: Request) -> Finding:
    count = _FEW_SAMPLES if session.quick else _SAMPLES
    limit = session.config.timeout
    words: list[str] = []
    failed = 0
    slowest = 0.0
    for name, request in (("evaluate", one), ("batch", all_flags)):
        taken = []
        for _ in range(count):
            reply, took = session.timed(request)
            if reply.status is None or reply.status not in (200, 404):
                failed += 1
            else:
                taken.append(took)
        if taken:
            slowest = max(slowest, *taken)
            words.append(
                f"{name} p50 {seconds(statistics.median(taken))}, p99 {seconds(max(taken))}"
            )
    text = f"{'; '.join(words) or 'no answers'} (of {count} each)"
    if failed:
        return warning(
            "latency",
            f"{failed} of {2 * count} calls failed; {text}",
            "The service is reached, but not reliably: look at its status page and at proxies.",
        )
    if slowest > limit / 2:
        return warning(
            "latency",
            f"{text}; the deadline is {seconds(limit)}",
            "That is near the deadline, at which values known before are served: raise `timeout`, "
            "or look for what is slow on the way.",
        )
    return ok("latency", text)


def _skew(reply: Reply, took: float) -> float | None:
    try:
        moment = parsedate_to_datetime(reply.headers.get("date", ""))
        theirs = moment.timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
    # The header has whole seconds.
    return time.time() - took / 2 - (theirs + 0.5)


def _clock(session: Session) -> Finding:
    skew = session.skew
    if skew is None:
        return skipped("clock", "the answers carry no date")
    if abs(skew) > _SKEW:
        side = "ahead of" if skew > 0 else "behind"
        return warning(
            "clock",
            f"this machine's clock is {_span(abs(skew))} {side} the service's",
            "Let it follow a time server: events get wrong times, and certificates may seem "
            "invalid.",
        )
    return ok("clock", f"within {max(1, round(abs(skew)))} s of the service's")


def _span(value: float) -> str:
    for size, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if value >= 2 * size:
            return f"{value / size:.0f} {name}"
    return f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} minutes"
