"""What people would use instead, each fed offline with the same flags.

Nothing here leaves this machine: flags come from memory, from the peer's own test data or from
a loopback address; telemetry is switched off, and events go to a sink on the loopback address
where reading a flag makes some. A peer is imported when it is opened, so that one which is not
installed says so in the table and spoils nothing else.
"""

from __future__ import annotations

import contextlib
import http.server
import itertools
import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.normal import as_if_it_streams

__all__ = ["NAMES", "OURS", "READERS", "Peer", "opened", "sink"]

#: The targeted user, as every peer is told of it.
USER = "user-1"


class Peer(NamedTuple):
    """One peer, ready to read.

    Attributes:
        held: Makes what a request holds once its flags are known, and reads from after that.
        read: An expression that reads the flag `key` from that, named `held`.
        everything: An expression that gives all flags of a returning user.
        names: What else these expressions use.
        close: Lets go of it.
        note: How it was fed, where a reader should know.
    """

    held: Callable[..., Any]
    read: str
    everything: str = ""
    names: Mapping[str, Any] = MappingProxyType({})
    close: Callable[[], object] = lambda: None
    note: str = ""


class _Sink(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b"{}"
        self.send_response(202)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = _answer

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def sink() -> Iterator[str]:
    """An address on this machine that takes whatever is sent to it."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Sink)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def plain_dict(flags: dict[str, bool], url: str) -> Peer:
    """The limit: a dictionary."""
    return Peer(lambda: flags, "held.get(key, False)", "held.copy()", {"held": flags})


def shipsilently(flags: dict[str, bool], url: str, *, max_age: float | None = None) -> Peer:
    """Ours, with a fresh evaluation in the cache, as long as its stream is up or `max_age` says."""
    from shipsilently_core import AnalyticsConfig, Context, ShipSilentlyClient
    from shipsilently_core.testing import ScriptedService

    client = ShipSilentlyClient(
        api_key="bench",
        transport=ScriptedService(flags),
        background=False,
        max_age=max_age,
        analytics=AnalyticsConfig(max_buffer_size=2_000_000, max_batch_size=2_000_000),
    )
    as_if_it_streams(client)
    # Made once, as the others' are.
    who = Context({"userId": USER})
    client.evaluate_all(who)
    client.flags(who).get("flag-0", False)

    def held() -> Any:
        return client.flags(who).load()

    names = {"client": client, "who": who}
    everything = "client.flags(who).evaluate_all()"
    return Peer(held, "held.get(key, False)", everything, names, client.close)


def launchdarkly(flags: dict[str, bool], url: str) -> Peer:
    """LaunchDarkly's client on its own test data, with events."""
    ld = import_module("ldclient")
    data = import_module("ldclient.integrations.test_data").TestData.data_source()
    for key, value in flags.items():
        data.update(data.flag(key).variation_for_all(value))
    config = import_module("ldclient.config").Config(
        "bench",
        update_processor_class=data,
        events_uri=url,
        base_uri=url,
        stream_uri=url,
        events_max_pending=2_000_000,
        flush_interval=3_600,
        diagnostic_opt_out=True,
        enable_event_compression=False,
    )
    client = ld.LDClient(config, start_wait=5)
    assert client.is_initialized()
    context = ld.Context.create(USER)
    return Peer(
        lambda: context,
        "client.variation(key, held, False)",
        "client.all_flags_state(held).to_values_map()",
        {"client": client},
        client.close,
        "its test data; events on",
    )


def launchdarkly_held(flags: dict[str, bool], url: str) -> Peer:
    """LaunchDarkly's state of all flags, held and read without events."""
    peer = launchdarkly(flags, url)
    state = peer.names["client"].all_flags_state(peer.held())
    return Peer(lambda: state, "held.get_flag_value(key)", close=peer.close, note="held state")


def unleash(flags: dict[str, bool], url: str) -> Peer:
    """Unleash's client, bootstrapped from memory; no metrics, no registration."""
    module = import_module("UnleashClient")
    cache_module = import_module("UnleashClient.cache")
    cache = cache_module.FileCache("bench")
    cache.bootstrap_from_dict(
        {
            "version": 2,
            "features": [
                {"name": key, "enabled": value, "strategies": [{"name": "default"}]}
                for key, value in flags.items()
            ],
        }
    )
    client = module.UnleashClient(
        url,
        "bench",
        disable_metrics=True,
        disable_registration=True,
        refresh_interval=86_400,
        cache=cache,
        custom_headers={"Authorization": "bench"},
    )
    client.initialize_client(fetch_toggles=False)
    assert client.is_enabled("flag-0") is flags["flag-0"]
    return Peer(
        lambda: {"userId": USER},
        "client.is_enabled(key, held)",
        "{key: client.is_enabled(key, held) for key in keys}",
        {"client": client, "keys": list(flags)},
        client.destroy,
        "bootstrapped; metrics off",
    )


def growthbook(flags: dict[str, bool], url: str) -> Peer:
    """GrowthBook with its features given."""
    module = import_module("growthbook")
    features = {key: {"defaultValue": value} for key, value in flags.items()}
    held = module.GrowthBook(attributes={"id": USER}, features=features)
    return Peer(
        lambda: held,
        "held.is_on(key)",
        "{key: held.get_feature_value(key, None) for key in keys}",
        {"keys": list(flags)},
        held.destroy,
        "features given",
    )


def _flagsmith_document(flags: dict[str, bool]) -> dict[str, Any]:
    return {
        "id": 1,
        "api_key": "bench",
        "name": "bench",
        "project": {
            "id": 1,
            "name": "bench",
            "hide_disabled_flags": False,
            "segments": [],
            "organisation": {
                "id": 1,
                "name": "bench",
                "feature_analytics": False,
                "stop_serving_flags": False,
                "persist_trait_data": True,
            },
        },
        "segment_overrides": [],
        "identity_overrides": [],
        "feature_states": [
            {
                "enabled": value,
                "feature_state_value": None,
                "featurestate_uuid": f"00000000-0000-0000-0000-{number:012d}",
                "django_id": number,
                "feature": {"id": number, "name": key, "type": "STANDARD"},
                "multivariate_feature_state_values": [],
            }
            for number, (key, value) in enumerate(flags.items())
        ],
    }


def flagsmith(flags: dict[str, bool], url: str) -> Peer:
    """Flagsmith's client on an environment document; no analytics."""
    module = import_module("flagsmith")
    document = _flagsmith_document(flags)

    class Handler:
        def get_environment(self) -> Any:
            return document

    client = module.Flagsmith(offline_mode=True, offline_handler=Handler())
    return Peer(
        lambda: client.get_identity_flags(USER),
        "held.is_feature_enabled(key)",
        "{flag.feature_name: flag.enabled for flag in client.get_identity_flags(who).all_flags()}",
        {"client": client, "who": USER},
        note="offline document; analytics off",
    )


def posthog(flags: dict[str, bool], url: str) -> Peer:
    """PostHog's snapshot of locally evaluated flags; its events are queued and not sent."""
    module = import_module("posthog")
    logging.getLogger("posthog").setLevel(logging.CRITICAL)
    definitions = {
        "flags": [
            {
                "id": number,
                "key": key,
                "active": value,
                "filters": {"groups": [{"properties": [], "rollout_percentage": 100}]},
            }
            for number, (key, value) in enumerate(flags.items())
        ],
        "group_type_mapping": {},
        "cohorts": {},
    }

    class Definitions:
        """Gives the flags' definitions in the place of the service."""

        def get_flag_definitions(self) -> Any:
            return definitions

        def should_fetch_flag_definitions(self) -> bool:
            return False

        def on_flag_definitions_received(self, data: Any) -> None: ...

        def shutdown(self) -> None: ...

    client = module.Posthog(
        "bench",
        host=url,
        personal_api_key="bench",
        send=False,
        max_queue_size=2_000_000,
        poll_interval=86_400,
        flag_definition_cache_provider=Definitions(),
    )
    client.load_feature_flags()

    def held(who: str = USER) -> Any:
        return client.evaluate_flags(who, only_evaluate_locally=True)

    assert held().is_enabled("flag-0") is flags["flag-0"]
    return Peer(
        held,
        "held.is_enabled(key)",
        "client.evaluate_flags(who, only_evaluate_locally=True)",
        {"client": client, "who": USER},
        client.shutdown,
        "definitions given; its snapshot, whose event was made before",
    )


def posthog_events(flags: dict[str, bool], url: str) -> Peer:
    """The same for a person of its own each time, since it makes one event per person and value."""
    peer = posthog(flags, url)
    people = itertools.count()
    return peer._replace(
        held=lambda: peer.held(f"user-{next(people)}"),
        note="a new person each time, so an event each time",
    )


def statsig(flags: dict[str, bool], url: str) -> Peer:
    """Statsig's client, whose core is Rust, on specs from memory; nothing is sent."""
    module = import_module("statsig_python_core")
    specs = json.dumps(
        {
            "has_updates": True,
            "time": 1_700_000_000_000,
            "company_lcut": 1_700_000_000_000,
            "dynamic_configs": {},
            "layer_configs": {},
            "feature_gates": {
                key: {
                    "name": key,
                    "type": "feature_gate",
                    "salt": key,
                    "enabled": True,
                    "defaultValue": False,
                    "rules": [
                        {
                            "name": "all",
                            "groupName": "all",
                            "passPercentage": 100 if value else 0,
                            "conditions": [],
                            "returnValue": True,
                            "id": f"rule-{key}",
                            "salt": "",
                            "idType": "userID",
                        }
                    ],
                    "isDeviceBased": False,
                    "idType": "userID",
                    "entity": "feature_gate",
                    "version": 1,
                }
                for key, value in flags.items()
            },
            "condition_map": {},
            "param_stores": {},
            "layers": {},
            "id_lists": {},
            "experiment_to_layer": {},
        }
    )

    class Store(module.DataStore):  # type: ignore[misc,name-defined]
        def initialize(self) -> None: ...

        def shutdown(self) -> None: ...

        def get(self, key: str) -> Any:
            return module.DataStoreResponse(result=specs, time=1_700_000_000_000)

        def set(self, key: str, value: str, time: int | None = None) -> None: ...

        def support_polling_updates_for(self, key: str) -> bool:
            return False

    options = module.StatsigOptions(
        disable_network=True,
        data_store=Store(),
        disable_country_lookup=True,
        wait_for_country_lookup_init=False,
        output_log_level="none",
        specs_sync_interval_ms=86_400_000,
        event_logging_flush_interval_ms=86_400_000,
    )
    client = module.Statsig("secret-bench", options)
    client.initialize().wait()
    user = module.StatsigUser(user_id=USER)
    for key in ("flag-0", "flag-1"):
        assert client.check_gate(user, key) is flags[key], key
    return Peer(
        lambda: user,
        "client.check_gate(held, key)",
        "client.get_client_initialize_response(held)",
        {"client": client},
        lambda: client.shutdown().wait(),
        "specs given; network off",
    )


def openfeature(flags: dict[str, bool], url: str) -> Peer:
    """OpenFeature's own in-memory provider."""
    api = import_module("openfeature.api")
    memory = import_module("openfeature.provider.in_memory_provider")
    context = import_module("openfeature.evaluation_context").EvaluationContext(USER)
    held = {
        key: memory.InMemoryFlag("on" if value else "off", {"on": True, "off": False})
        for key, value in flags.items()
    }
    api.set_provider_and_wait(memory.InMemoryProvider(held), "memory")
    client = api.get_client("memory")
    return Peer(
        lambda: context,
        "client.get_boolean_value(key, False, held)",
        "{key: client.get_boolean_value(key, False, held) for key in keys}",
        {"client": client, "keys": list(flags)},
        note="in-memory provider",
    )


def furagu_ruleset(flags: dict[str, bool]) -> dict[str, Any]:
    """The ruleset that furagu's service would send."""
    return {
        "schemaVersion": 2,
        "envId": "bench",
        "version": 1,
        "generatedAt": "2026-01-01T00:00:00Z",
        "flags": {
            key: {
                "key": key,
                "type": "boolean",
                "version": 1,
                "salt": key,
                "enabled": True,
                "variations": [{"id": "on", "value": True}, {"id": "off", "value": False}],
                "offVariation": "off",
                "fallthrough": {"kind": "fixed", "variation": "on" if value else "off"},
                "targets": [],
                "rules": [],
            }
            for key, value in flags.items()
        },
    }


def furagu_provider(flags: dict[str, bool]) -> Any:
    """furagu's provider with its ruleset from memory; its counts go nowhere."""
    transport = import_module("furagu.transport")
    body = json.dumps(furagu_ruleset(flags)).encode()

    class Memory:
        def request(self, method: str, url: str, **arguments: Any) -> Any:
            return transport.Response(200, {"etag": '"v1"'}, body)

    provider = import_module("furagu").FuraguProvider
    return provider("furagu_srv_bench", transport=Memory(), streaming=False, poll_interval=86_400)


def furagu(flags: dict[str, bool], url: str) -> Peer:
    """furagu through OpenFeature, as its manual says."""
    api = import_module("openfeature.api")
    api.set_provider_and_wait(furagu_provider(flags), "furagu")
    client = api.get_client("furagu")
    context = import_module("openfeature.evaluation_context").EvaluationContext(USER)
    return Peer(
        lambda: context,
        "client.get_boolean_value(key, False, held)",
        "{key: client.get_boolean_value(key, False, held) for key in keys}",
        {"client": client, "keys": list(flags)},
        api.shutdown,
        "ruleset given; counts kept in memory",
    )


def waffle(flags: dict[str, bool], url: str) -> Peer:
    """django-waffle on SQLite in memory with Django's cache in memory."""
    settings = import_module("django.conf").settings
    if not settings.configured:
        settings.configure(
            SECRET_KEY="bench",
            DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
            INSTALLED_APPS=[
                "django.contrib.contenttypes",
                "django.contrib.auth",
                "django.contrib.sessions",
                "waffle",
            ],
            CACHES={
                "default": {
                    "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
                    "OPTIONS": {"MAX_ENTRIES": 100_000},
                    "TIMEOUT": None,
                }
            },
        )
        import_module("django").setup()
    import_module("django.core.management").call_command("migrate", verbosity=0)
    model = import_module("waffle").get_waffle_flag_model()
    for key, value in flags.items():
        model.objects.create(name=key, everyone=value)
    factory = import_module("django.test").RequestFactory()
    anonymous = import_module("django.contrib.auth.models").AnonymousUser()

    def held() -> Any:
        request = factory.get("/")
        request.user = anonymous
        return request

    names = {"flag_is_active": import_module("waffle").flag_is_active, "keys": list(flags)}
    return Peer(
        held,
        "flag_is_active(held, key)",
        "{key: flag_is_active(held, key) for key in keys}",
        names,
        note="SQLite and cache in memory",
    )


#: How each is opened, by the name it is installed under.
READERS: dict[str, Callable[[dict[str, bool], str], Peer]] = {
    "dict": plain_dict,
    "shipsilently": shipsilently,
    "launchdarkly-server-sdk": launchdarkly,
    "UnleashClient": unleash,
    "growthbook": growthbook,
    "flagsmith": flagsmith,
    "posthog": posthog,
    "statsig-python-core": statsig,
    "openfeature-sdk": openfeature,
    "furagu": furagu,
    "django-waffle": waffle,
}

NAMES = tuple(READERS)
#: Those that need nothing beside this project.
OURS = ("dict", "shipsilently")


@contextlib.contextmanager
def opened(
    names: tuple[str, ...], flags: dict[str, bool]
) -> Iterator[tuple[dict[str, Peer], dict[str, str]]]:
    """These peers, ready, and those that could not be opened with the reason why."""
    peers: dict[str, Peer] = {}
    missing: dict[str, str] = {}
    with sink() as url:
        for name in names:
            if name in OURS:
                peers[name] = READERS[name](flags, url)
                continue
            try:
                peers[name] = READERS[name](flags, url)
            except ImportError as error:
                missing[name] = f"is not installed ({error.name or error})"
            except Exception as error:
                missing[name] = f"could not be fed offline: {type(error).__name__}: {error}"
        try:
            yield peers, missing
        finally:
            for peer in peers.values():
                with contextlib.suppress(Exception):
                    peer.close()
