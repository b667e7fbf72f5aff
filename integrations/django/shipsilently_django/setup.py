"""What this process uses: its options and its one client, made when first used."""

from __future__ import annotations

import logging
import os
import sys

from django.conf import settings
from django.core import mail
from msgspec import Struct

from shipsilently_core import Config, ShipSilentlyClient
from shipsilently_core._log import say
from shipsilently_core._process import Lock

from .options import Options, Problem, Reading, read_options

__all__ = [
    "Setup",
    "get_client",
    "get_setup",
    "in_tests",
    "in_use",
    "reset_setup",
    "settle_setup",
    "take_setup",
]


class Setup(Struct, frozen=True):
    """The options and the client that belong together.

    Attributes:
        options: Django's own settings.
        client: The process's client.
        ours: Whether it was made here and is to be closed here.
        problems: What is wrong with the settings.
        asks_nobody: Whether it was told to ask no service, or asks none since tests are running.
        before_tests: Whether it asks the service only since no tests are running.
    """

    options: Options
    client: ShipSilentlyClient
    ours: bool = True
    problems: tuple[Problem, ...] = ()
    asks_nobody: bool = False
    before_tests: bool = False

    @property
    def loud(self) -> bool:
        """Whether what a request would survive is raised instead."""
        return self.options.raise_in_debug and settings.DEBUG


#: At most one entry: under ``"setup"``, where each request looks, or under ``"early"`` while tests
#: may still begin, as they do after the site's apps were imported.
in_use: dict[str, Setup] = {}
#: One for each process: nobody would ever let go of one that was held at a fork.
_locks: dict[int, Lock] = {}
#: Seconds for which others wait for the one that makes the setup. A `CLIENT` that itself waits for
#: somebody who wants the client is not waited for any longer.
_PATIENCE = 2.0
#: Whether this process serves requests that are no tests'; none begin there any more.
_serving = False


def get_setup() -> Setup:
    """The process's setup; never raises."""
    return in_use.get("setup") or _find_setup()


def settle_setup() -> None:
    """Be told that the site's middleware is made: by a process that serves, or for a test.

    One that serves has its client from then on: what is wrong with the settings is logged at its
    start, and no request waits for what a client is made of. It opens and starts nothing.
    """
    global _serving
    if in_tests():
        setup = in_use.get("setup")
        if setup is not None and setup.before_tests:
            reset_setup()
        return
    _serving = True
    early = in_use.get("early")
    if early is not None:
        in_use.setdefault("setup", early)
        in_use.pop("early", None)
    try:
        get_setup()
    except Exception as error:
        # For instance since the process may open no more files.
        say(
            logging.WARNING,
            "the client could not be made at the start of this process (%s); requests that read a "
            "flag try it again",
            type(error).__name__,
        )


def get_client() -> ShipSilentlyClient:
    """The process's client, made from ``SHIPSILENTLY`` when first asked for.

    Without a usable key, address or `CLIENT` it is one that asks no service and serves the declared
    defaults. Any other setting that is wrong is left out, and the service's values are served all
    the same; where that is `CONTEXT`, flags are for nobody in particular.
    """
    return get_setup().client


def take_setup() -> Setup | None:
    """Forget options and client; the next use makes new ones.

    Returns:
        What was forgotten, where its client is to be closed by the caller.
    """
    setup = in_use.pop("setup", None) or in_use.pop("early", None)
    return setup if setup is not None and setup.ours else None


def reset_setup() -> None:
    """Forget options and client, and close what was made here, so that changed settings count."""
    setup = take_setup()
    if setup is not None:
        setup.client.close()


def in_tests() -> bool:
    """Whether Django's tests are running.

    They are not to depend on a service, nor to change what it counts.
    """
    utils = sys.modules.get("django.test.utils")
    # It catches mails then; but a site may have told it to do so all the time.
    if utils is None or not hasattr(mail, "outbox"):
        return False
    # Django's own; should it be gone one day, mails are all that tells.
    state = getattr(utils, "_TestState", None)
    return state is None or hasattr(state, "saved_data")


def _find_setup() -> Setup:
    early = in_use.get("early")
    if early is not None and not in_tests():
        return early
    lock = _locks.setdefault(os.getpid(), Lock())
    taken = lock.acquire(timeout=_PATIENCE)
    try:
        return in_use.get("setup") or _settled()
    finally:
        if taken:
            lock.release()


def _settled() -> Setup:
    early = in_use.get("early")
    if early is not None and not in_tests():
        return early
    if early is not None:
        # Tests have begun since.
        reset_setup()
    made = _make()
    kept = in_use.setdefault("early" if made.before_tests and not _serving else "setup", made)
    if kept.client is not made.client and made.ours:
        # Somebody was not waited for.
        made.client.close()
    return kept


def _make() -> Setup:
    reading = read_options(getattr(settings, "SHIPSILENTLY", {}), offline=in_tests())
    for problem in reading.problems:
        say(logging.ERROR, "%s; see `manage.py check`", problem.text)
    options = reading.options
    if isinstance(options.client, ShipSilentlyClient):
        return Setup(options, options.client, ours=False, problems=reading.problems)
    if options.client is not None:
        made = _called(options)
        if isinstance(made, ShipSilentlyClient):
            return Setup(options, made, problems=reading.problems)
        return Setup(options, _offline(None), problems=(*reading.problems, made))
    offline = in_tests() if options.offline is None else options.offline
    before_tests = options.offline is None and not offline
    if reading.config is None or offline:
        return Setup(
            options,
            _offline(_defaults_of(reading)),
            problems=reading.problems,
            asks_nobody=reading.config is not None,
            before_tests=before_tests,
        )
    if reading.config.store is not None:
        # Here, since most sites have none.
        from .stores import DjangoCacheStore

        if isinstance(reading.config.store, DjangoCacheStore):
            reading.config.store.prepare()
    return Setup(
        options,
        ShipSilentlyClient(reading.config),
        problems=reading.problems,
        before_tests=before_tests,
    )


def _called(options: Options) -> ShipSilentlyClient | Problem:
    make = options.client
    try:
        client = make() if callable(make) else None
    except Exception as error:
        say(logging.ERROR, "SHIPSILENTLY['CLIENT'] raised; defaults are served", error=error)
        return Problem("E003", f"SHIPSILENTLY['CLIENT'] raised {type(error).__name__}")
    if isinstance(client, ShipSilentlyClient):
        return client
    say(logging.ERROR, "SHIPSILENTLY['CLIENT'] made no ShipSilentlyClient; defaults are served")
    return Problem("E003", "SHIPSILENTLY['CLIENT'] made no ShipSilentlyClient")


def _defaults_of(reading: Reading) -> Config | None:
    if reading.config is not None:
        return reading.config
    given = getattr(settings, "SHIPSILENTLY", None)
    if isinstance(given, dict) and "DEFAULTS" in given:
        # The key or the address is wrong; the defaults may be right all the same.
        return read_options({**_ANYWHERE, "DEFAULTS": given["DEFAULTS"]}).config
    return None


def _offline(config: Config | None) -> ShipSilentlyClient:
    client = ShipSilentlyClient(config or Config.from_mapping(_ANYWHERE))
    client.close()
    return client


_ANYWHERE = {"API_KEY": "none", "API_URL": "http://localhost"}
