"""This request's flags: when they are made, where they are kept, and who sees the same ones."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, assert_type

import pytest
from flask import (
    Flask,
    Response,
    copy_current_request_context,
    g,
    render_template_string,
    stream_with_context,
)
from shipsilently_flask import flags
from shipsilently_flask.current import kept_flags

from shipsilently_core import Flags, FlagSet, ShipSilentlyClient
from shipsilently_core.testing import ManualClock, ScriptedService
from tests.core.support import check_unknown

from .apps import bare_app, for_user, in_thread, make_app


def count(app: Flask) -> int:
    """How many evaluations the app's service was asked for."""
    return len(app.service.requests)  # type: ignore[attr-defined]  # put there by the fixture


@pytest.fixture
def app() -> Flask:
    """An app on a service that tells everybody who they are."""
    service = ScriptedService(for_user)
    made = make_app(service)
    made.service = service  # type: ignore[attr-defined]  # for `count`
    return made


def test_the_proxy_stands_for_the_requests_flags(app: Flask) -> None:
    """Inside a request `flags` is a `Flags` and has all of its verbs."""
    with app.test_request_context(headers={"User": "ada"}):
        assert isinstance(flags, Flags)
        assert assert_type(flags.get("me", ""), str) == "ada"
        assert flags.is_enabled("on")
        assert flags.detail("me", "").source == "server"
        assert set(flags.evaluate_all()) == {"me", "on"}
        assert "me" in flags
        assert "nothing" not in flags


def test_what_somebody_sends_for_a_key_may_be_anything(app: Flask) -> None:
    """A key that is no string is read as an unknown flag, by each verb, and raises nothing."""
    sent: Any
    with app.test_request_context(headers={"User": "ada"}):
        for sent in (["on"], {"on": 1}, None, 1):
            check_unknown(flags, sent)
            assert (
                render_template_string("{{ flag(sent) }}{{ sent|flag }}", sent=sent) == "NoneNone"
            )
        assert flags.is_enabled("on")


class Me(FlagSet):
    """Typed flags."""

    me: str = "nobody"
    on: bool = False


def test_flags_can_be_typed(app: Flask) -> None:
    """`flags.as_` reads a set of typed flags from the request's evaluation."""
    with app.test_request_context(headers={"User": "ada"}):
        assert assert_type(flags.as_(Me), Me) == Me(me="ada", on=True)
    assert count(app) == 1


def test_a_request_is_evaluated_once(app: Flask) -> None:
    """All reads of one request share one evaluation, and another user's request has its own."""

    @app.get("/")
    def page() -> str:
        return "".join(str(flags.get("me", "")) for _ in range(3))

    client = app.test_client()
    assert client.get("/", headers={"User": "a"}).text == "aaa"
    assert count(app) == 1
    assert client.get("/", headers={"User": "b"}).text == "bbb"
    assert count(app) == 2


def test_requests_inside_a_pushed_app_context_do_not_share_flags(app: Flask) -> None:
    """With an app context around them, as tests like to have, each request is its own user's."""
    app.add_url_rule("/", view_func=lambda: flags.get("me", ""), endpoint="me")
    client = app.test_client()
    with app.app_context():
        assert flags.get("me", "") == "nobody"
        seen = [client.get("/", headers={"User": name}).text for name in ("ada", "bob")]
        assert seen == ["ada", "bob"]
        assert flags.get("me", "") == "nobody"


def test_an_app_context_is_enough(app: Flask) -> None:
    """In a script flags are evaluated for nobody in particular, once."""
    with app.app_context():
        assert flags.get("me", "") == "nobody"
        assert flags.get("me", "") == "nobody"
        assert any("shipsilently" in name for name in g)
    assert count(app) == 1


class Job:
    """An app whose time is told, and what a job in its context reads."""

    def __init__(self, **settings: Any) -> None:
        self.service = ScriptedService({"on": False})
        self.clock = ManualClock()
        self.client = ShipSilentlyClient(
            api_key="sk_test", transport=self.service, clock=self.clock, **settings
        )
        self.app = make_app(client=self.client)

    def read(self) -> tuple[bool, str]:
        """The flag in a function and in a template."""
        source = '{% flag "on" %}True{% else %}False{% endflag %}'
        return flags.is_enabled("on"), render_template_string(source)


def test_a_long_app_context_sees_a_change() -> None:
    """A worker whose only app context was pushed when it started follows the flags."""
    job = Job(polling_interval=60)
    with job.app.app_context():
        assert job.read() == (False, "False")
        job.service.set({"on": True})
        job.clock.advance(59)
        assert job.read() == (False, "False")
        assert len(job.service.requests) == 1
        job.clock.advance(1)
        assert job.read() == (True, "True")
        assert job.read() == (True, "True")
        assert len(job.service.requests) == 2
        kept = kept_flags()
        assert kept is not None
        assert kept.get("on", False)


def test_a_long_app_context_asks_nobody_for_what_is_fresh() -> None:
    """Flags that the client knows to be current are taken as they are."""
    job = Job(polling_interval=60, max_age=1e6)
    with job.app.app_context():
        for _ in range(3):
            assert job.read() == (False, "False")
            job.clock.advance(60)
    assert len(job.service.requests) == 1


def test_a_long_app_context_keeps_what_it_knows_during_an_outage() -> None:
    """When its flags are due and the service is down, the last known good ones are read."""
    job = Job(polling_interval=60)
    job.service.set({"on": True})
    with job.app.app_context():
        assert job.read() == (True, "True")
        job.service.fail(503)
        job.clock.advance(60)
        assert job.read() == (True, "True")


def test_a_long_request_sees_one_evaluation_to_its_end() -> None:
    """However long it takes, also in another app's context within it; a refresh is asked for."""
    job, other = Job(polling_interval=60), Job(polling_interval=60)
    with job.app.app_context(), job.app.test_request_context():
        assert job.read() == (False, "False")
        with other.app.app_context():
            assert job.read() == (False, "False")
            for each in (job, other):
                each.service.set({"on": True})
                each.clock.advance(3_600)
            assert job.read() == (False, "False")
        assert job.read() == (False, "False")
        flags.refresh()
        assert job.read() == (True, "True")


def test_a_command_of_the_apps_own_reads_flags(app: Flask) -> None:
    """A command that is registered with the app's `cli` has flags, as any app context."""

    @app.cli.command("tell")
    def tell() -> None:
        print(flags.get("me", ""))

    assert app.test_cli_runner().invoke(args=["tell"]).output == "nobody\n"


def test_outside_any_context_the_error_names_the_way(app: Flask) -> None:
    """Without an app context a read is an error that says how to get one."""
    with pytest.raises(RuntimeError, match=r"app\.app_context\(\).*copy_current_request_context"):
        flags.get("me", "")
    assert "unbound" in repr(flags)


def test_an_app_without_the_extension_is_named() -> None:
    """In an app that was never set up a read is an error that names the app and the call."""
    with (
        bare_app("forgotten").app_context(),
        pytest.raises(RuntimeError, match=r"'forgotten'.*init_app"),
    ):
        flags.get("me", "")


def test_a_bare_thread_has_no_flags_and_a_copied_context_has_the_requests(app: Flask) -> None:
    """A thread sees this request's flags with Flask's own copy of the context, without another
    evaluation, and a clear error without it."""
    with app.test_request_context(headers={"User": "ada"}):
        mine = flags.get("me", "")
        copied = copy_current_request_context(lambda: flags.get("me", ""))
        assert (mine, in_thread(copied)) == ("ada", "ada")
        with (
            ThreadPoolExecutor(1) as pool,
            pytest.raises(RuntimeError, match="belong to a request"),
        ):
            pool.submit(lambda: flags.get("me", "")).result()
    assert count(app) == 1


def test_threads_of_one_request_agree_on_its_flags(app: Flask) -> None:
    """Threads that all read first still get one and the same object."""
    with app.test_request_context(headers={"User": "ada"}):
        read = [copy_current_request_context(lambda: id(flags.context)) for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            assert len({future.result() for future in [pool.submit(one) for one in read]}) == 1


def test_a_stream_has_the_requests_flags(app: Flask) -> None:
    """A streamed body sees the flags of its request, evaluated once."""

    @app.get("/")
    def page() -> Response:
        first = flags.get("me", "")

        def body() -> Any:
            yield first
            yield flags.get("me", "")

        return Response(stream_with_context(body()))

    assert app.test_client().get("/", headers={"User": "ada"}).text == "adaada"
    assert count(app) == 1


def test_a_stream_may_be_the_first_to_read(app: Flask) -> None:
    """A body that reads the first flag of its request after the headers have left works."""

    @app.get("/")
    def page() -> Response:
        def body() -> Any:
            yield flags.get("me", "")

        return Response(stream_with_context(body()))

    assert app.test_client().get("/", headers={"User": "ada"}).text == "ada"


def test_async_views_read_in_both_ways(app: Flask) -> None:
    """In an async view plain reads wait for the service and awaitable ones do, too."""

    @app.get("/plain")
    async def plain() -> str:
        return flags.get("me", "")

    @app.get("/awaited")
    async def awaited() -> str:
        return await flags.aget("me", "") + str(await flags.ais_enabled("on"))

    client = app.test_client()
    assert client.get("/plain", headers={"User": "ada"}).text == "ada"
    assert client.get("/awaited", headers={"User": "bob"}).text == "bobTrue"
    assert count(app) == 2


def test_flags_stay_as_they_were_for_the_whole_request(app: Flask) -> None:
    """A change at the service during a request is seen by the next one only."""

    @app.get("/")
    def page() -> str:
        first = flags.get("me", "")
        app.service.set({"me": "changed"})  # type: ignore[attr-defined]  # see `app`
        return first + flags.get("me", "")

    assert app.test_client().get("/", headers={"User": "ada"}).text == "adaada"


def test_every_verb_is_that_of_the_requests_flags(app: Flask) -> None:
    """The proxy's short ways take what the verbs take, and say what is missing without an app."""
    with app.test_request_context(headers={"User": "ada"}):
        assert flags.get(key="me", default="") == flags.get("me") == "ada"
        assert flags.is_enabled(key="none", default=True)
        assert not flags.is_enabled("none")
        assert flags.load() is flags.refresh()
        with pytest.raises(AttributeError, match="nothing"):
            _ = flags.nothing  # type: ignore[attr-defined]
    for read in (flags.get, flags.is_enabled):
        with pytest.raises(RuntimeError, match="app context"):
            read("me")
    with pytest.raises(RuntimeError, match="app context"):
        _ = flags.detail
