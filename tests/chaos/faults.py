"""Every fault there is, by name."""

from __future__ import annotations

import gzip
import json
import random
from typing import Any

from .secure import Expires, ForgetsTls, HandshakeHangs
from .toxics import (
    AnsweredTwice,
    Bandwidth,
    BareEvents,
    Bomb,
    Breaks,
    Changed,
    Delays,
    Drips,
    Ends,
    EventFlood,
    HalfOpen,
    Kills,
    LongEvent,
    Mixed,
    Raw,
    Refuses,
    Reorders,
    StaleKeepAlive,
    StopsInMidEvent,
    Swallows,
    Vanishes,
    edited,
)
from .trial import Fault
from .wire import Answer

__all__ = ["FAULTS"]

_STREAM = frozenset({"stream"})
_CONNECTION = frozenset({"connection"})
_HTML = b"<html><body><h1>Sign in to the guest network</h1></body></html>"
_DEEP = 100_000


def _flags(content: dict[str, Any]) -> dict[str, Any]:
    """The flags of a batch, or an empty dict to put things into that count for nothing."""
    flags: dict[str, Any] = content.setdefault("flags", {})
    return flags


def _unknown_keys(content: dict[str, Any]) -> None:
    content["next"] = {"page": [1, None, {"of": 2.5}]}
    for row in (content, *content.get("flags", {}).values()):
        row.update({"etag": "x" * 100, "variation": {"id": None}, "ünknown": [[], {}]})


def _duplicate_keys(answer: Answer) -> Answer:
    # The last one counts, as in every decoder that is in common use.
    body = answer.body.replace(b'"value": ', b'"value": "somebody:1", "value": ')
    if body.startswith(b'{"flags": '):
        body = b'{"flags": {"who": {"value": "somebody:2", "reason": "default"}}, ' + body[1:]
    return answer.but(body=body)


def _nested(answer: Answer) -> Answer:
    deep = b"[" * _DEEP + b"]" * _DEEP
    row = b'"deep": {"flagKey": "deep", "reason": "default", "value": ' + deep + b"}, "
    if answer.body.startswith(b'{"flags": {'):
        return answer.but(body=answer.body.replace(b'{"flags": {', b'{"flags": {' + row))
    return answer.but(body=b'{"deep": ' + deep + b", " + answer.body[1:])


def _big_integers(answer: Answer) -> Answer:
    rows = "".join(
        f'"big-{number}": {{"flagKey": "big-{number}", "reason": "default", "value": {text}}}, '
        for number, text in enumerate((str(2**63), str(-(2**64)), "9" * 10_000, "1e400", "-0"))
    ).encode()
    return answer.but(body=answer.body.replace(b'{"flags": {', b'{"flags": {' + rows))


def _garbage(answer: Answer) -> Answer:
    return answer.but(body=answer.body.replace(b'"value": "', b'"value": "\xff\xfe\xc3('))


def _noise(answer: Answer) -> Answer:
    return answer.but(body=random.randbytes(len(answer.body)))


def _chunked(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)


def _broken_chunks(answer: Answer) -> Answer:
    body = _chunked(answer.body).replace(b"\r\n", b"zz\r\n", 1)
    return answer.but(
        body=body, headers={"Transfer-Encoding": "chunked"}, without=("Content-Length",)
    )


def _trailers(answer: Answer) -> Answer:
    trailers = b"X-Trailer: and on it goes\r\n" * 50_000
    return answer.but(
        body=_chunked(answer.body)[:-2] + trailers + b"\r\n",
        headers={"Transfer-Encoding": "chunked"},
        without=("Content-Length",),
    )


def _length(answer: Answer, by: int) -> Answer:
    return answer.but(headers={"Content-Length": str(max(0, len(answer.body) + by))})


def _old(answer: Answer) -> Answer:
    return answer.but(
        first=answer.first.replace("HTTP/1.1", "HTTP/1.0"), without=("Content-Length",)
    )


def _error(status: str, **headers: str) -> Changed:
    body = json.dumps({"error": status}).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Changed(lambda answer: answer.but(first=f"HTTP/1.1 {status}", body=body, headers=named))


def _page(body: bytes) -> Changed:
    kind = {"Content-Type": "text/html; charset=utf-8"}
    return Changed(lambda answer: answer.but(body=body, headers=kind))


def _broken_gzip(answer: Answer) -> Answer:
    return answer.but(body=gzip.compress(answer.body)[:-12], headers={"Content-Encoding": "gzip"})


def _mixed() -> Mixed:
    return Mixed(
        (
            *(Delays(0, 0.5), Delays(0, 0), Delays(0, 0), Drips(0.01), HalfOpen()),
            Breaks(lambda answer: len(answer.raw) - 5, reset=True),
            Breaks(lambda answer: 20, reset=False),
            *(_error("500 Internal Server Error"), _error("403 Forbidden"), _page(_HTML)),
            *(AnsweredTwice(), StaleKeepAlive(reset=True), Changed(_noise)),
        )
    )


_ALL = (
    Fault("latency", "each answer and event 0.4 s late", lambda: Delays(0.4, 0.4), serves=True),
    Fault("jitter", "up to 1.4 s late, some beyond the deadline", lambda: Delays(0.0, 1.4)),
    Fault("bandwidth", "10 KB/s on each connection", lambda: Bandwidth(10_000), serves=True),
    Fault("half-open", "takes connections and questions, never answers", HalfOpen),
    Fault(
        *("vanished", "the peer of every open connection is gone without FIN", Vanishes),
        seconds=0.1,
        whom=_CONNECTION,
    ),
    Fault(
        "host-off", "as above, and new connections get no answer either", Swallows, whom=_CONNECTION
    ),
    Fault("refused", "the port is closed", Refuses, whom=_CONNECTION),
    Fault("ends-at-once", "connections are taken and ended", Ends, whom=_CONNECTION),
    Fault(
        *("connections-reset", "all of them, every 0.3 s", lambda: Kills(0.3)),
        serves=True,
        whom=_CONNECTION,
    ),
    Fault(
        *("reset-mid-headers", "a reset after 20 bytes of an answer"),
        lambda: Breaks(lambda answer: 20, reset=True),
    ),
    Fault(
        *("reset-mid-body", "a reset before the last bytes of an answer"),
        lambda: Breaks(lambda answer: len(answer.raw) - 5, reset=True),
    ),
    Fault(
        *("cut-mid-body", "a regular end before the last bytes"),
        lambda: Breaks(lambda answer: len(answer.raw) - 5, reset=False),
    ),
    Fault(
        *("reset-mid-event", "a reset after half an event"),
        lambda: StopsInMidEvent(reset=True),
        serves=True,
        whom=_STREAM,
    ),
    Fault(
        *("half-event", "half an event, then comments for ever"),
        lambda: StopsInMidEvent(reset=False),
        seconds=3.0,
        whom=_STREAM,
    ),
    Fault("slow-drip", "one byte at a time, headers too", lambda: Drips(0.02)),
    Fault(
        *("reordered", "older answers delivered after newer ones", Reorders),
        serves=True,
        seconds=3.5,
        whom=frozenset({"shared"}),
    ),
    Fault(
        *("stale-keep-alive", "an idle connection ends just when it is used again"),
        lambda: StaleKeepAlive(reset=False),
        serves=True,
    ),
    Fault(
        *("stale-keep-alive-reset", "the same with a reset"),
        lambda: StaleKeepAlive(reset=True),
        serves=True,
    ),
    Fault("answered-twice", "each answer twice in one piece", AnsweredTwice),
    Fault(
        *("dns-gone", "the name stops resolving, connections are reset", lambda: Kills(0.2)),
        names="fail",
        whom=frozenset({"name"}),
    ),
    Fault(
        *("dns-hangs", "look-ups hang, connections are reset", lambda: Kills(0.2)),
        names="hang",
        whom=frozenset({"name"}),
    ),
    Fault(
        *("tls-expires", "the certificate expires in mid-run", Kills),
        tls=lambda authority: Expires(authority, 1.0),
        seconds=3.5,
        whom=_CONNECTION,
    ),
    Fault(
        *("tls-expired", "the certificate is replaced by an expired one", Kills),
        tls=lambda authority: Expires(authority, -86400.0),
        whom=_CONNECTION,
    ),
    Fault(
        *("tls-hangs", "the handshake is never answered", Kills),
        tls=lambda authority: HandshakeHangs(),
        whom=_CONNECTION,
    ),
    Fault(
        *("tls-forgotten", "plain HTTP where TLS was", Kills),
        tls=lambda authority: ForgetsTls(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        whom=_CONNECTION,
    ),
    Fault(
        *("header-1mb", "one header of 1 MB in each answer"),
        lambda: Changed(lambda answer: answer.but(headers={"X-Long": "x" * 1_000_000})),
    ),
    Fault(
        *("headers-20000", "20,000 headers in each answer"),
        lambda: Changed(
            lambda answer: answer.but(headers={f"X-{number}": "y" for number in range(20_000)})
        ),
    ),
    Fault("gzip-bomb", "answers of 200 KB that unpack to 200 MB", lambda: Bomb(200 * 1024 * 1024)),
    Fault(
        *("gzip-broken", "compressed answers whose end is missing"), lambda: Changed(_broken_gzip)
    ),
    Fault(
        *("unknown-encoding", "answers in an encoding that nobody asked for"),
        lambda: Changed(lambda answer: answer.but(headers={"Content-Encoding": "br"})),
    ),
    Fault(
        *("endless-body", "an answer that never ends"),
        lambda: Raw(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b" " * 60_000,
            *(10_000, 0.001),
        ),
    ),
    Fault(
        *("event-line-100mb", "a line of 100 MB on the stream"),
        lambda: LongEvent(100 * 1024 * 1024),
        serves=True,
        whom=_STREAM,
    ),
    Fault("event-flood", "thousands of changes told in a second", EventFlood, whom=_STREAM),
    Fault(
        *("events-garbage", "events of random bytes, unknown names and no names"),
        lambda: BareEvents(
            *(b"event: \xff\xfe\ndata: \xc3(\n\n", b"data\n\n", b"\0\0: \x80\n\n", b"retry: x\n\n"),
            b"event: unknown\ndata: {\n\n",
        ),
        serves=True,
        whom=_STREAM,
    ),
    Fault("garbage-utf8", "values that are no UTF-8", lambda: Changed(_garbage)),
    Fault("garbage", "answers of random bytes", lambda: Changed(_noise)),
    Fault(
        *("duplicate-keys", "keys twice in an object, somebody else's first"),
        lambda: Changed(_duplicate_keys),
        serves=True,
    ),
    Fault(
        *("unknown-keys", "keys that the protocol does not know"),
        lambda: Changed(edited(_unknown_keys)),
        serves=True,
    ),
    Fault(
        *("deep-nesting", "100,000 levels in one flag of the answer"),
        lambda: Changed(_nested, "batch", "evaluate"),
    ),
    Fault(
        *("big-integers", "numbers beyond 64 bits in other flags"),
        lambda: Changed(_big_integers),
        serves=True,
    ),
    Fault("broken-chunks", "a chunked answer with a wrong size", lambda: Changed(_broken_chunks)),
    Fault(
        "length-too-long",
        "100 bytes fewer than announced",
        lambda: Changed(lambda a: _length(a, 100)),
    ),
    Fault(
        "length-too-short", "9 bytes more than announced", lambda: Changed(lambda a: _length(a, -9))
    ),
    Fault(
        *("continue-once", "100 Continue before each answer"),
        lambda: Raw(b"HTTP/1.1 100 Continue\r\n\r\n"),
        serves=True,
    ),
    Fault(
        *("continue-for-ever", "100 Continue again and again, and no answer"),
        lambda: Raw(b"HTTP/1.1 100 Continue\r\n\r\n", 100_000, 0.01),
    ),
    Fault(
        *("http-1.0", "HTTP/1.0: no length, the end of the connection ends the answer"),
        lambda: Changed(_old, close=True),
        serves=True,
    ),
    Fault(
        "not-http", "another protocol answers", lambda: Raw(b"SSH-2.0-OpenSSH_9.2\r\n", silent=True)
    ),
    Fault(
        *("redirect", "every answer is a redirect to a sign-in page"),
        lambda: _error("302 Found", Location="http://127.0.0.1:9/login"),
    ),
    Fault("empty-200", "200 without a body", lambda: _page(b"")),
    Fault("no-content", "204", lambda: _error("204 No Content")),
    Fault("html-200", "200 with a page of HTML, for the stream too", lambda: _page(_HTML)),
    Fault("unauthorized", "401 to everything", lambda: _error("401 Unauthorized")),
    Fault(
        *("server-error", "500 to everything", lambda: _error("500 Internal Server Error")),
        seconds=1.5,
    ),
    Fault(
        *("throttled", "429 with Retry-After: 1"),
        lambda: _error("429 Too Many Requests", Retry_After="1"),
        whom=frozenset(),
    ),
    Fault(
        *("stream-refused", "tickets are given and never taken"),
        lambda: Changed(
            lambda answer: answer.but(first="HTTP/1.1 401 Unauthorized"), "stream", anew=True
        ),
        serves=True,
        whom=_STREAM,
    ),
    Fault(
        *("trailers", "a chunked answer that ends with 50,000 trailers"),
        lambda: Changed(_trailers),
    ),
    Fault("mixed", "each time another one of a dozen of these", _mixed),
)

FAULTS = {fault.name: fault for fault in _ALL}
