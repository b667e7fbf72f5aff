"""``Depends(flags)`` and ``flags.using(...)``."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from fastapi import Depends, FastAPI, Header, HTTPException, Request, WebSocket
from shipsilently_fastapi import FlagsDep, RequestFlags, ShipSilently, flags, get_flags

from shipsilently_core import Context, Flags
from shipsilently_core.testing import ScriptedService, override_flags
from tests.test_fastapi.apps import (
    FREE,
    PRO,
    app_with,
    attempts,
    from_headers,
    from_headers_async,
    serving,
    socket_status,
)

Make = Callable[..., ShipSilently]


def add_readers(app: FastAPI, dependency: Any) -> None:
    """Endpoints of every kind that say whom the flags are for and whether `new` is on."""

    def answer(flags: Flags) -> str:
        return f"{flags.get('who', '')} {flags.is_enabled('new')}"

    @app.get("/async")
    async def read_async(flags: dependency) -> str:
        return answer(flags)

    @app.get("/plain")
    def read_plain(flags: dependency) -> str:
        return answer(flags)

    @app.websocket("/socket")
    async def read_socket(socket: WebSocket, flags: dependency) -> None:
        await socket.accept()
        await socket.send_text(answer(flags))


@pytest.mark.parametrize("context", [from_headers, from_headers_async])
def test_flags_are_those_of_whoever_asks(make: Make, context: Any) -> None:
    """Plain and async endpoints and sockets get the flags of the connection's own context."""
    app = app_with(make(context=context))
    add_readers(app, FlagsDep)
    with serving(app) as client:
        for headers, expected in ((PRO, "ada True"), (FREE, "bob False")):
            assert client.get("/async", headers=headers).json() == expected
            assert client.get("/plain", headers=headers).json() == expected
            assert socket_status(client, "/socket", headers=headers) == expected


def test_one_request_makes_one_attempt(make: Make, service: ScriptedService) -> None:
    """However many dependencies and reads a request has, the service is asked once."""
    app = app_with(make(context=from_headers))

    def helper(flags: FlagsDep) -> str:
        return flags.get("color", "")

    @app.get("/")
    async def home(
        request: Request, flags: FlagsDep, color: Annotated[str, Depends(helper)]
    ) -> list[Any]:
        same = get_flags(request) is flags
        return [same, color, flags.get("color", ""), flags.get("limit", 0)]

    with serving(app) as client:
        assert client.get("/", headers=PRO).json() == [True, "red", "red", 3]
    assert attempts(service) == 1


def test_the_dependency_works_with_the_lifespan_alone(make: Make) -> None:
    """Without the middleware, the dependency finds the client that the lifespan has started."""
    app = FastAPI(lifespan=make(context=from_headers).lifespan)
    add_readers(app, FlagsDep)
    with serving(app) as client:
        assert client.get("/async", headers=PRO).json() == "ada True"
        assert socket_status(client, "/socket", headers=PRO) == "ada True"


def test_the_dependency_can_be_overridden(make: Make) -> None:
    """`app.dependency_overrides[flags]` decides what endpoints and gates get."""
    app = app_with(make(context=from_headers))
    add_readers(app, FlagsDep)

    @app.get("/gated", **flags.gate("new"))
    async def gated() -> str:
        return "in"

    other = make().client.flags({"userId": "fake", "plan": "pro"})

    async def fake() -> Flags:
        await other.aevaluate_all()
        return other

    app.dependency_overrides[flags] = fake
    with serving(app) as client:
        assert client.get("/async", headers=FREE).json() == "fake True"
        assert client.get("/gated", headers=FREE).status_code == 200


def current_context(x_user: Annotated[str, Header()]) -> dict[str, str]:
    """The app's own authentication, plain."""
    if x_user == "stranger":
        raise HTTPException(401)
    return {"userId": x_user, "plan": "pro" if x_user == "ada" else "free"}


async def current_context_async(x_user: Annotated[str, Header()]) -> Context:
    """The same, awaitable, giving a `Context`."""
    return Context(current_context(x_user))


def current_user_of_socket(socket: WebSocket) -> dict[str, str]:
    """A context from a socket."""
    return current_context(socket.headers["x-user"])


@pytest.mark.parametrize("context", [current_context, current_context_async])
def test_the_user_comes_from_a_dependency_of_the_app(
    make: Make, service: ScriptedService, context: Any
) -> None:
    """With `flags.using`, the context is what the app's own dependency gives."""
    app = app_with(make())
    add_readers(app, Annotated[RequestFlags, Depends(flags.using(context))])
    with serving(app) as client:
        for path in ("/async", "/plain"):
            assert client.get(path, headers=PRO).json() == "ada True"
            assert client.get(path, headers=FREE).json() == "bob False"
        assert socket_status(client, "/socket", headers=PRO) == "ada True"
        assert client.get("/async", headers={"x-user": "stranger"}).status_code == 401
    assert attempts(service) == 2


def test_the_context_dependency_runs_once_per_request(make: Make) -> None:
    """A dependency that parses a token runs once, however many flags, gates and users need it."""
    calls = []

    def context(request: Request) -> dict[str, str]:
        calls.append(request.url.path)
        return {"userId": "ada", "plan": "pro"}

    user_flags = flags.using(context)
    app = app_with(make())

    @app.get("/", **user_flags.gate("new"))
    async def home(
        user: Annotated[dict[str, str], Depends(context)],
        flags: Annotated[RequestFlags, Depends(user_flags)],
    ) -> str:
        return flags.get("who", "") + user["plan"]

    with serving(app) as client:
        assert client.get("/").json() == "adapro"
    assert calls == ["/"]


def test_overriding_the_context_dependency_changes_whose_flags_they_are(make: Make) -> None:
    """`app.dependency_overrides` of the app's own dependency reaches the flags."""
    app = app_with(make())
    add_readers(app, Annotated[RequestFlags, Depends(flags.using(current_context))])
    app.dependency_overrides[current_context] = lambda: {"userId": "eve", "plan": "pro"}
    with serving(app) as client:
        assert client.get("/async", headers=FREE).json() == "eve True"


def test_the_flags_of_a_user_become_those_of_the_request(make: Make) -> None:
    """After `flags.using`, everything else in the request that asks for flags gets the same."""
    app = app_with(make(context=from_headers))

    @app.get("/")
    async def home(
        request: Request,
        mine: Annotated[RequestFlags, Depends(flags.using(current_context))],
        general: FlagsDep,
    ) -> bool:
        return mine is general is get_flags(request)

    with serving(app) as client:
        assert client.get("/", headers=PRO).json() is True


def test_two_users_in_one_request_are_kept_apart(make: Make) -> None:
    """Flags needed for one context before are not changed by another dependency's context."""
    app = app_with(make(context=from_headers))

    @app.get("/")
    async def home(
        general: FlagsDep,
        other: Annotated[
            RequestFlags, Depends(flags.using(lambda: {"userId": "other", "plan": "pro"}))
        ],
    ) -> list[Any]:
        return [general.get("who", ""), other.get("who", ""), other.get("new", False)]

    with serving(app) as client:
        assert client.get("/", headers=FREE).json() == ["bob", "other", True]


def test_the_same_context_dependency_gives_the_same_flags_dependency() -> None:
    """`flags.using` gives one object per argument, so that overrides find it."""
    assert flags.using(current_context) is flags.using(current_context)
    assert flags.using(current_context) is not flags.using(current_context_async)


def test_overrides_of_a_test_reach_the_dependency_and_end_with_it(make: Make) -> None:
    """`override_flags` wins over what is cached, in every kind of endpoint, and leaves nothing."""
    app = app_with(make(context=from_headers))
    add_readers(app, FlagsDep)

    def answers(client: Any) -> set[Any]:
        found = {client.get(path, headers=FREE).json() for path in ("/async", "/plain")}
        return found | {socket_status(client, "/socket", headers=FREE)}

    with serving(app) as client:
        assert answers(client) == {"bob False"}
        with override_flags({"new": True}):
            assert answers(client) == {"bob True"}
            with override_flags(who="eve"):
                assert answers(client) == {"eve True"}
        with pytest.raises(ZeroDivisionError), override_flags(new=True):
            raise ZeroDivisionError
        assert answers(client) == {"bob False"}


#: JSON values, and of which type each is.
VALUES: list[tuple[Any, str]] = [
    (True, "boolean"),
    (False, "boolean"),
    (1, "number"),
    (0, "number"),
    (1.5, "number"),
    ("1", "string"),
    ("true", "string"),
    ("", "string"),
    ({"a": 1}, "object"),
    ({}, "object"),
    ([], "array"),
    (None, "null"),
]
DEFAULTS = [
    (False, "boolean"),
    (7, "number"),
    (0.5, "number"),
    ("x", "string"),
    ({"b": 2}, "object"),
]


def test_a_value_of_another_type_than_the_default_is_not_served(
    make: Make, service: ScriptedService
) -> None:
    """`true` is no number, `1` no boolean, and so on: through the dependency, async and plain."""
    service.set({f"v{number}": value for number, (value, _) in enumerate(VALUES)})
    app = app_with(make())

    def table(flags: Any) -> list[str]:
        return [
            repr(flags.get(f"v{number}", default))
            for number in range(len(VALUES))
            for default, _ in DEFAULTS
        ]

    @app.get("/async")
    async def read_async(flags: FlagsDep) -> list[str]:
        return table(flags)

    @app.get("/plain")
    def read_plain(flags: FlagsDep) -> list[str]:
        return table(flags)

    expected = [
        repr(value if kind == wanted else default)
        for value, kind in VALUES
        for default, wanted in DEFAULTS
    ]
    with serving(app) as client:
        assert client.get("/async").json() == expected
        assert client.get("/plain").json() == expected
