"""The production checklist: what can be told of it from this process."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from blinker import NamedSignal

from shipsilently_core import Config, ShipSilentlyClient, signals
from shipsilently_core._process import living

from . import keeping
from .findings import Finding, ok, skipped, warning
from .sources import Read, reads_in
from .subject import Subject

__all__ = ["check"]

_NO_APP = "no app is loaded here: run it with your framework's command, or with --app"
_SHOWN = 8
_EXPORTERS = ("prometheus", "opentelemetry", "otel", "sentry", "statsd")


def check(subject: Subject, flags: frozenset[str] | None) -> Iterator[Finding]:
    """Every point of the checklist.

    Args:
        subject: What is examined.
        flags: The keys of the environment's flags, where they are known.
    """
    config = subject.config
    if config is None:
        return
    yield from _defaults(subject, config, flags)
    yield _streaming(config)
    yield _events(subject, config)
    yield from keeping.check(config)
    yield from _hooks(subject, config)
    yield _clients(subject)
    yield _fork(subject, config)


def _defaults(subject: Subject, config: Config, flags: frozenset[str] | None) -> Iterator[Finding]:
    if not subject.app and not subject.sources:
        yield skipped("defaults", _NO_APP)
        return
    reads = reads_in(subject.sources)
    bare = {read.key: read for read in reads if not read.has_default}
    missing = [read for key, read in sorted(bare.items()) if key not in config.defaults]
    if missing:
        yield warning(
            "defaults",
            f"{len(missing)} flag{'' if len(missing) == 1 else 's'} read without a default: "
            f"{_listed(missing)}",
            "Declare them in `defaults`: they are what is served until the service has answered.",
        )
    elif reads:
        count = len({read.key for read in reads})
        what = "the one flag" if count == 1 else f"each of the {count} flags"
        yield ok("defaults", f"{what} read has one")
    elif config.defaults or not flags:
        yield ok("defaults", f"{len(config.defaults)} declared; no flag was found in the sources")
    else:
        yield warning(
            "defaults",
            f"none declared, for {len(flags)} flags of the environment",
            "Declare in `defaults` what to serve until the service has answered.",
        )
    if flags is None:
        return
    unknown = {read.key: read for read in reads if read.key not in flags}
    if unknown:
        yield warning(
            "flags",
            f"read, but not in this environment: "
            f"{_listed([read for _, read in sorted(unknown.items())])}",
            "Make them there, or correct their spelling; until then their defaults are served.",
        )
    elif reads:
        yield ok("flags", "every flag read is in this environment")


def _listed(reads: list[Read]) -> str:
    words = [f"{read.key} ({read.place})" for read in islice(reads, _SHOWN)]
    more = len(reads) - len(words)
    return ", ".join(words) + (f" and {more} more" if more else "")


def _streaming(config: Config) -> Finding:
    if not config.background:
        return skipped("streaming", "this process keeps nothing current by itself: background off")
    if not config.stream:
        return warning(
            "streaming",
            f"off: changes arrive by polling, up to {config.polling_interval:g} s late",
            "Leave `stream` on in services that run for long; off is for a plan without it.",
        )
    return ok("streaming", "on")


def _events(subject: Subject, config: Config) -> Finding:
    if not config.analytics.enabled:
        return ok("events", "not counted: analytics is switched off")
    client = subject.client
    lost = client.status().dropped_events if client is not None else 0
    if lost:
        return warning(
            "events",
            f"{lost} flag checks of this process were lost",
            "Raise analytics.max_buffer_size, or look at what keeps deliveries from the service.",
        )
    if not config.background:
        return warning(
            "events",
            "with the background off, flag checks are delivered only when told to",
            "Write `with client.flushed():` around each task, or call `client.flush()`.",
        )
    return ok(
        "events",
        f"delivered every {config.analytics.flush_interval:g} s and when the process ends",
    )


def _hooks(subject: Subject, config: Config) -> Iterator[Finding]:
    if not subject.app:
        yield skipped("hooks", _NO_APP)
        return
    if config.on_state_change is None and not _receivers(signals.connection_state_changed):
        yield warning(
            "hooks",
            "nobody is told when the connection to the service is lost",
            "Connect a receiver to connection_state_changed, or set on_state_change.",
        )
    else:
        yield ok("hooks", "somebody is told of changes of the connection's state")
    failures = config.on_error is not None or _receivers(signals.evaluation_failed)
    if failures or _receivers(signals.events_dropped) or _exporters():
        yield ok("metrics", "failures are told to somebody")
    else:
        yield warning(
            "metrics",
            "failures are logged, but not counted",
            "Connect a receiver that counts to evaluation_failed, or set on_error.",
        )


def _receivers(signal: NamedSignal) -> int:
    return len(signal.receivers)


def _exporters() -> bool:
    return any(
        name.startswith("shipsilently") and any(word in name for word in _EXPORTERS)
        for name in list(sys.modules)
    )


def _clients(subject: Subject) -> Finding:
    if not subject.app:
        return skipped("clients", _NO_APP)
    # What nobody refers to any more is no client of the app's.
    gc.collect()
    clients = [
        lived
        for lived in living()
        if isinstance(lived, ShipSilentlyClient) and not lived.evaluator.closed
    ]
    alike = Counter((client.config.api_url, client.config.api_key) for client in clients)
    most = max(alike.values(), default=0)
    if most > 1:
        return warning(
            "clients",
            f"{most} clients of one environment are in this process",
            "Make one and share it: each has a stream, a cache and checks of its own.",
        )
    return ok("clients", "one client for each environment")


def _fork(subject: Subject, config: Config) -> Finding:
    if config.http_client is not None and hasattr(config.http_client, "send"):
        return warning(
            "fork",
            "http_client is a ready client: workers forked after it was made share its "
            "connections, and get each other's answers",
            "Give a function that makes one; it is called once in each process.",
        )
    if not subject.app:
        return skipped("fork", _NO_APP)
    client = subject.client
    if client is not None and client.evaluator.gate.background:
        server = _preloading()
        return warning(
            "fork",
            f"loading {subject.app} starts the client's background"
            f"{f', and {server} forks after that' if server else ''}",
            "Read no flag and call no start() while modules are imported: the first request "
            "starts it, in the process that serves.",
        )
    return ok("fork", "loading the app starts no thread, so servers may fork after it")


def _preloading() -> str:
    """The server that forks after it has loaded the app, as far as the environment tells."""
    if "--preload" in os.environ.get("GUNICORN_CMD_ARGS", ""):
        return "gunicorn --preload"
    return "uWSGI" if "uwsgi" in sys.modules else ""
