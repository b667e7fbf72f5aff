"""The configuration as resolved, and the key's shape."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from shipsilently_core import Config

from .findings import Finding, Level, ok, warning
from .session import seconds
from .subject import Subject

__all__ = ["check", "is_this_machine", "redacted"]

#: What may be shown of a key: what keys of its kind have in common.
_PREFIX = re.compile(r"sk_(?:(?:live|test)_)?", re.ASCII)

#: Characters that a key of the hosted service has at least, its prefix included.
_SHORTEST = 16


def check(subject: Subject) -> Iterator[Finding]:
    """What the client has been told."""
    yield from subject.problems
    wrong = any(problem.level is Level.FAILURE for problem in subject.problems)
    config = subject.config
    if config is None:
        return
    changes = "streaming" if config.stream else f"polling every {seconds(config.polling_interval)}"
    where = f" of {subject.app}" if subject.app else ""
    summary = f"settings{where}: {config.api_url}, deadline {seconds(config.timeout)}, {changes}"
    local = is_this_machine(urlsplit(config.api_url).hostname or "")
    if config.api_url.startswith("http://") and not local:
        yield warning(
            "configuration",
            f"{summary}; without TLS, so the key can be read on the way",
            "Write https:// in api_url.",
        )
    elif wrong:
        yield warning(
            "configuration",
            f"used without what is wrong above: {summary}",
            "Correct that first: what is said below may change with it.",
        )
    else:
        yield ok("configuration", summary)
    yield _key(config, local)


def _key(config: Config, local: bool) -> Finding:
    shown = redacted(config.api_key)
    if not config.api_key.startswith("sk_"):
        return warning(
            "key",
            f"{shown}: SDK keys begin with sk_",
            "Copy the SDK key of one environment from the dashboard; it is no user's token.",
        )
    if len(config.api_key) < _SHORTEST and not local:
        return warning(
            "key",
            f"{shown}: shorter than SDK keys of the hosted service are",
            "Copy it again from the dashboard, as a whole; sk_local is for the local service.",
        )
    return ok("key", shown)


def redacted(key: str) -> str:
    """A key without what makes it a key."""
    known = _PREFIX.match(key)
    return f"{known[0] if known else ''}… ({len(key)} characters)"


def is_this_machine(host: str) -> bool:
    """Whether a host is the loopback interface."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
