"""What this process uses: its options and its one client, made when first used."""

from __future__ import annotations

import logging

from django.conf import settings
from django.core import mail
from msgspec import Struct

from shipsilently_core import Config, ShipSilentlyClient

from .options import Options, Problem, Reading, read_options

__all__ = ["Setup", "get_client", "get_setup", "in_tests", "in_use", "reset_setup", "take_setup"]

log: logging.Logger = logging.getLogger("shipsilently")


class Setup(Struct, frozen=True):
    """The options and the client that belong together.

    Attributes:
        options: Django's own settings.
        client: The process's client.
        ours: Whether it was made here and is to be closed here.
        problems: What is wrong with the settings.
        asks_nobody: Whether it was told to ask no service, or asks none since tests are running.
    """

    options: Options
    client: ShipSilentlyClient
    ours: bool = True
    problems: tuple[Problem, ...] = ()
    asks_nobody: bool = False

    @property
    def loud(self) -> bool:
        """Whether what a request would survive is raised instead."""
        return self.options.raise_in_debug and settings.DEBUG


#: At most one entry, under ``"setup"``. `setdefault` publishes it without a lock, which a fork
#: could leave held.
in_use: dict[str, Setup] = {}


def get_setup() -> Setup:
    """The process's setup; never raises."""
    return in_use.get("setup") or in_use.setdefault("setup", _make())


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
    setup = in_use.pop("setup", None)
    return setup if setup is not None and setup.ours else None


def reset_setup() -> None:
    """Forget options and client, and close what was made here, so that changed settings count."""
    setup = take_setup()
    if setup is not None:
        setup.client.close()


def in_tests() -> bool:
    """Whether Django's tests are running; it catches mails then.

    They are not to depend on a service, nor to change what it counts.
    """
    return hasattr(mail, "outbox")


def _make() -> Setup:
    reading = read_options(getattr(settings, "SHIPSILENTLY", {}), offline=in_tests())
    for problem in reading.problems:
        log.error("%s; see `manage.py check`", problem.text)
    options = reading.options
    if isinstance(options.client, ShipSilentlyClient):
        return Setup(options, options.client, ours=False, problems=reading.problems)
    if options.client is not None:
        made = _called(options)
        if isinstance(made, ShipSilentlyClient):
            return Setup(options, made, problems=reading.problems)
        return Setup(options, _offline(None), problems=(*reading.problems, made))
    offline = in_tests() if options.offline is None else options.offline
    if reading.config is None or offline:
        return Setup(
            options,
            _offline(_defaults_of(reading)),
            problems=reading.problems,
            asks_nobody=reading.config is not None,
        )
    if reading.config.store is not None:
        # Here, since most sites have none.
        from .stores import DjangoCacheStore

        if isinstance(reading.config.store, DjangoCacheStore):
            reading.config.store.prepare()
    return Setup(options, ShipSilentlyClient(reading.config), problems=reading.problems)


def _called(options: Options) -> ShipSilentlyClient | Problem:
    make = options.client
    try:
        client = make() if callable(make) else None
    except Exception as error:
        log.exception("SHIPSILENTLY['CLIENT'] raised; defaults are served")
        return Problem("E003", f"SHIPSILENTLY['CLIENT'] raised {type(error).__name__}")
    if isinstance(client, ShipSilentlyClient):
        return client
    log.error("SHIPSILENTLY['CLIENT'] made no ShipSilentlyClient; defaults are served")
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
