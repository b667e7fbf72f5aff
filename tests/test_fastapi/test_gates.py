"""Gates, on routes, routers, apps and sockets."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi import APIRouter, Depends, FastAPI, WebSocket
from shipsilently_fastapi import ShipSilently, flags, requires_flag

from shipsilently_core.testing import ScriptedService, override_flags
from tests.test_fastapi.apps import (
    FREE,
    PRO,
    app_with,
    attempts,
    from_headers,
    serving,
    socket_status,
)

Make = Callable[..., ShipSilently]


async def through() -> str:
    """An endpoint behind a gate."""
    return "through"


def through_plain() -> str:
    """The same, not async."""
    return "through"


@pytest.fixture
def app(make: Make) -> FastAPI:
    """An app whose flags follow the headers."""
    return app_with(make(context=from_headers))


@pytest.mark.parametrize("endpoint", [through, through_plain])
def test_a_gate_refuses_who_has_not_the_flag(app: FastAPI, endpoint: Any) -> None:
    """A gated route is a 404 for those without the flag, as if it did not exist."""
    app.get("/gated", dependencies=[Depends(requires_flag("new"))])(endpoint)
    with serving(app) as client:
        assert client.get("/gated", headers=PRO).json() == "through"
        refused = client.get("/gated", headers=FREE)
        assert (refused.status_code, refused.json()) == (404, {"detail": "Not Found"})
        assert client.get("/gated", headers=FREE).json() == client.get("/missing").json()


def test_a_gate_stands_before_a_router_and_before_an_app(make: Make) -> None:
    """A gate among the dependencies of a router or of an app covers every route in it."""
    gate = Depends(requires_flag("new"))
    router = APIRouter(prefix="/router", dependencies=[gate])
    router.get("/a")(through)
    open_app = app_with(make(context=from_headers))
    open_app.include_router(router)
    open_app.get("/open")(through)
    closed_app = app_with(make(context=from_headers), dependencies=[gate])
    closed_app.get("/a")(through)
    with serving(open_app) as client, serving(closed_app) as closed:
        assert client.get("/router/a", headers=PRO).status_code == 200
        assert client.get("/router/a", headers=FREE).status_code == 404
        assert client.get("/open", headers=FREE).status_code == 200
        assert closed.get("/a", headers=PRO).status_code == 200
        assert closed.get("/a", headers=FREE).status_code == 404


def test_a_gate_has_the_status_and_the_words_it_was_given(app: FastAPI) -> None:
    """Status and detail of the refusal are the gate's."""
    gate = requires_flag("new", status=403, detail="Ask for the new checkout.")
    app.get("/gated", dependencies=[Depends(gate)])(through)
    with serving(app) as client:
        refused = client.get("/gated", headers=FREE)
    assert (refused.status_code, refused.json()) == (403, {"detail": "Ask for the new checkout."})


def test_a_gate_may_refuse_with_a_status_that_has_no_name() -> None:
    """Any error will do; where it has no usual text, there is a plain one."""
    assert (requires_flag("new", status=499).status, requires_flag("new", status=499).detail) == (
        499,
        "Refused",
    )


@pytest.mark.parametrize(
    ("keys", "value", "passes"),
    [
        (("new",), True, "pro"),
        (("!new",), True, "free"),
        (("new", "!missing"), True, "pro"),
        (("new", "missing"), True, ""),
        (("!missing",), True, "pro free"),
        (("new",), False, "free"),
        (("new",), 1, ""),
        (("new",), 0, ""),
        (("color",), "red", "pro free"),
        (("color",), "blue", ""),
        (("!color",), "blue", "pro free"),
        (("color",), True, ""),
        (("limit",), 3, "pro free"),
        (("limit",), 3.0, "pro free"),
        (("limit",), True, ""),
        (("one",), True, ""),
        (("one",), 1, "pro free"),
        (("object",), {"a": 1}, "pro free"),
    ],
)
def test_gates_compare_with_the_type(
    app: FastAPI, service: ScriptedService, keys: Any, value: Any, passes: str
) -> None:
    """A gate opens for exactly its value, where 1 and true differ; all its flags must hold."""
    service.set(
        lambda context: {
            "new": context.get("plan") == "pro",
            "color": "red",
            "limit": 3,
            "one": 1,
            "object": {"a": 1},
        }
    )
    app.get("/gated", dependencies=[Depends(requires_flag(*keys, value=value))])(through)
    with serving(app) as client:
        passed = [
            headers["x-plan"]
            for headers in (PRO, FREE)
            if client.get("/gated", headers=headers).status_code == 200
        ]
    assert passed == passes.split()


def test_a_socket_is_denied_before_it_opens(app: FastAPI) -> None:
    """Where the server can answer a handshake, a gated socket gets the gate's status."""

    @app.websocket("/socket", dependencies=[Depends(requires_flag("new", status=403))])
    async def socket(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("through")

    with serving(app) as client:
        assert socket_status(client, "/socket", headers=PRO) == "through"
        assert socket_status(client, "/socket", headers=FREE) == 403


def test_a_socket_is_closed_where_it_cannot_be_denied(app: FastAPI) -> None:
    """Without the extension for denials, a gated socket is closed with 1008."""

    @app.websocket("/socket", dependencies=[Depends(requires_flag("new"))])
    async def socket(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("through")

    async def older_server(scope: Any, receive: Any, send: Any) -> None:
        scope.pop("extensions", None)
        await app(scope, receive, send)

    with serving(older_server) as client:
        assert socket_status(client, "/socket", headers=PRO) == "through"
        assert socket_status(client, "/socket", headers=FREE) == 1008


def test_a_socket_that_is_open_is_closed(app: FastAPI) -> None:
    """A gate after another dependency has accepted the socket closes it with 1008."""

    async def accept(socket: WebSocket) -> None:
        await socket.accept()

    @app.websocket("/socket", dependencies=[Depends(accept), Depends(requires_flag("new"))])
    async def socket(socket: WebSocket) -> None:
        await socket.send_text("through")

    with serving(app) as client:
        assert socket_status(client, "/socket", headers=PRO) == "through"
        assert socket_status(client, "/socket", headers=FREE) == 1008


def test_the_same_arguments_give_the_same_gate() -> None:
    """Gates of equal arguments are one object, those of others are others."""
    gate = requires_flag("new")
    assert requires_flag("new", value=True, status=404) is gate
    assert flags.requires("new") is gate
    assert repr(gate) == "<Gate new>"
    others = [
        requires_flag("other"),
        requires_flag("new", "other"),
        requires_flag("new", value=1),
        requires_flag("new", value={"a": 1}),
        requires_flag("new", status=403),
        requires_flag("new", detail="No."),
        flags.using(through).requires("new"),
    ]
    assert len({id(other) for other in [gate, *others]}) == len(others) + 1
    assert requires_flag("new", value={"a": 1}) is others[3]


def test_a_gate_can_be_overridden(app: FastAPI) -> None:
    """`app.dependency_overrides[requires_flag(...)]` opens the gate."""
    app.get("/gated", dependencies=[Depends(requires_flag("new"))])(through)
    app.dependency_overrides[requires_flag("new")] = lambda: None
    with serving(app) as client:
        assert client.get("/gated", headers=FREE).status_code == 200


def test_overrides_of_a_test_open_and_close_gates(app: FastAPI) -> None:
    """`override_flags` reaches gates on routes and on sockets, and ends with its block."""
    app.get("/gated", dependencies=[Depends(requires_flag("new"))])(through)

    @app.websocket("/socket", dependencies=[Depends(requires_flag("new"))])
    async def socket(socket: WebSocket) -> None:
        await socket.accept()
        await socket.send_text("through")

    with serving(app) as client:
        for value, expected, seen in ((True, 200, "through"), (False, 404, 404), ("yes", 404, 404)):
            with override_flags(new=value):
                assert client.get("/gated", headers=FREE).status_code == expected
                assert socket_status(client, "/socket", headers=FREE) == seen
        assert client.get("/gated", headers=FREE).status_code == 404
        assert client.get("/gated", headers=PRO).status_code == 200


def test_many_gates_make_one_attempt(app: FastAPI, service: ScriptedService) -> None:
    """However many gates a request passes, the service is asked once."""
    gates = [Depends(requires_flag(key)) for key in ("new", "!other", "!third")]
    app.get("/gated", dependencies=gates)(through)
    with serving(app) as client:
        assert client.get("/gated", headers=PRO).status_code == 200
    assert attempts(service) == 1


def test_openapi_lists_the_refusal(app: FastAPI) -> None:
    """`**flags.gate(...)` gates a route and tells OpenAPI what the refusal looks like."""
    app.get("/gated", **flags.gate("new", status=403, detail="Not yours"))(through)
    with serving(app) as client:
        assert client.get("/gated", headers=PRO).status_code == 200
        refused = client.get("/gated", headers=FREE)
        operation = client.get("/openapi.json").json()["paths"]["/gated"]["get"]
    assert (refused.status_code, refused.json()) == (403, {"detail": "Not yours"})
    response = operation["responses"]["403"]
    assert response["description"] == "Not yours"
    assert response["content"]["application/json"]["schema"]["required"] == ["detail"]
    assert "parameters" not in operation


def test_a_router_takes_a_gate_as_arguments(app: FastAPI) -> None:
    """`**flags.gate(...)` works for a router, too, whose routes all list the refusal."""
    router = APIRouter(prefix="/beta", **flags.gate("new"))
    router.get("/a")(through)
    app.include_router(router)
    with serving(app) as client:
        assert client.get("/beta/a", headers=FREE).status_code == 404
        responses = client.get("/openapi.json").json()["paths"]["/beta/a"]["get"]["responses"]
    assert set(responses) == {"200", "404"}


@pytest.mark.parametrize(
    ("keys", "status"), [((), 404), (("",), 404), (("!",), 404), (("new",), 200)]
)
def test_gates_are_checked_when_they_are_made(keys: tuple[str, ...], status: int) -> None:
    """A gate without a flag, or whose refusal would be a success, is an error at once."""
    with pytest.raises(ValueError, match=r"needs the (key|status)"):
        requires_flag(*keys, status=status)
