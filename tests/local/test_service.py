"""The whole service as an object."""

import gc
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from shipsilently_local import FaultError, FlagsFileError, LocalService, LocalServiceError

from .conftest import FLAGS, connect, listening
from .raw import connection, pieces, request

BODY = {"flagKey": "banner", "context": {}}


def value(client: httpx.Client, key: str) -> Any:
    """A flag's value for nobody in particular."""
    return client.post("/v1/evaluate", json={"flagKey": key, "context": {}}).json().get("value")


def test_it_runs_for_the_length_of_a_block() -> None:
    """Inside the block requests are answered; after it nobody listens."""
    with LocalService(FLAGS) as service:
        assert service.running
        assert service.url == f"http://127.0.0.1:{service.port}"
        assert httpx.get(service.url).status_code == 404
    assert not service.running
    with pytest.raises(httpx.ConnectError):
        httpx.get(service.url)


def test_starting_and_stopping_twice_does_nothing_more() -> None:
    """Start and stop may be called again without harm, and stop without a start."""
    service = LocalService({})
    service.stop()
    port = service.start().port
    assert service.start().port == port
    service.stop()
    service.stop()


def test_the_port_and_key_can_be_chosen(free_port: int) -> None:
    """A given port and key are the ones in force."""
    with LocalService(FLAGS, "sk_other", free_port) as service:
        assert service.port == free_port
        with connect(service) as client:
            assert client.headers["X-API-Key"] == "sk_other"
            assert value(client, "banner") == "Welcome"


@pytest.mark.parametrize("key", ["", "a b", "a\nb", "ä", "a\x7f"])
def test_a_key_that_no_header_can_hold_is_refused(key: str) -> None:
    """A key is checked up front, and the error does not repeat it."""
    with pytest.raises(LocalServiceError) as caught:
        LocalService({}, key)
    assert str(caught.value) == "the key must be printable ASCII without spaces"


@pytest.mark.parametrize("heartbeat", [0.0, -1.0, float("nan")])
def test_a_heartbeat_takes_time(heartbeat: float) -> None:
    """A heartbeat without an interval is refused."""
    with pytest.raises(LocalServiceError, match="more than 0 seconds"):
        LocalService({}, heartbeat=heartbeat)


def test_wrong_flags_are_refused_before_anything_runs() -> None:
    """A wrong mapping is an error that names the flag."""
    with pytest.raises(FlagsFileError, match='flag "f", field "default"'):
        LocalService({"f": None})


def test_a_restart_keeps_port_faults_counts_and_tickets(client: httpx.Client) -> None:
    """After a restart the service goes on where it was, but without its connections."""
    with LocalService(FLAGS) as service, connect(service) as client:
        ticket = client.post("/v1/stream/ticket").json()["ticket"]
        service.fault("batch", status=503)
        port = service.port
        with listening(client) as listener:
            service.restart()
            assert listener.rest() == b""
        assert service.port == port
        assert service.open_streams == 0
        assert client.post("/v1/evaluate/batch").status_code == 503
        assert [each.path for each in service.requests][-1] == "/v1/evaluate/batch"
        with client.stream("GET", "/v1/stream", params={"ticket": ticket}) as response:
            assert response.status_code == 200


def test_a_stop_is_quick_whatever_goes_on() -> None:
    """Open streams, silent, late, dripping and half-sent requests do not hold the end up."""
    faults: list[dict[str, Any]] = [{"silence": True}, {"delay": 30}, {"drip": 5}]
    with LocalService(FLAGS) as service, connect(service) as client:
        sockets = []
        with listening(client):
            for fault in faults:
                service.fault("evaluate", times=1, **fault)
                sock = socket.create_connection(("127.0.0.1", service.port))
                sock.sendall(request(service, "/v1/evaluate", BODY))
                sockets.append(sock)
            half = socket.create_connection(("127.0.0.1", service.port))
            half.sendall(request(service, "/v1/evaluate", b"{}", Content_Length="100"))
            while service.state()["requests"]["evaluate"] < len(faults):
                pass
            start = time.monotonic()
            service.stop()
            assert time.monotonic() - start < 5.0
        for sock in (*sockets, half):
            sock.close()


def test_nothing_is_left_after_a_stop(tmp_path: Path) -> None:
    """No thread and no socket outlives the service; with warnings as errors it is silent."""
    path = tmp_path / "flags.toml"
    path.write_text("[flags.a]\ndefault = 1\n")
    before = {thread.ident for thread in threading.enumerate()}
    with LocalService(path) as service, connect(service) as client, listening(client):
        service.set_flag("a", default=2)
    gc.collect()
    left = [each.name for each in threading.enumerate() if each.ident not in before]
    assert left == []


def test_a_flag_is_changed_for_everybody_at_once(
    service: LocalService, client: httpx.Client
) -> None:
    """After set_flag the next request sees the new field; the others stay; None removes one."""
    service.set_flag("checkout-v2", enabled=False)
    body = {"flagKey": "checkout-v2", "context": {"plan": "pro"}}
    assert client.post("/v1/evaluate", json=body).json()["reason"] == "flag_disabled"
    service.set_flag("checkout-v2", enabled=None)
    assert client.post("/v1/evaluate", json=body).json()["reason"] == "rule_match"
    service.set_flag("new", default={"a": 1})
    assert value(client, "new") == {"a": 1}


def test_a_wrong_change_is_refused(service: LocalService, client: httpx.Client) -> None:
    """A change that the checks refuse changes nothing."""
    with pytest.raises(FlagsFileError, match='there is no such field; did you mean "default"'):
        service.set_flag("banner", defautl="x")
    assert value(client, "banner") == "Welcome"


def test_flags_are_replaced_and_removed(service: LocalService, client: httpx.Client) -> None:
    """All flags can be replaced in one step, and one can be removed, twice without harm."""
    service.set_flags({"x": 1, "y": 2})
    service.remove_flag("y")
    service.remove_flag("y")
    assert service.state()["flags"] == ["x"]
    assert value(client, "banner") is None


def test_a_change_without_a_difference_is_not_announced(
    service: LocalService, client: httpx.Client
) -> None:
    """Streams hear of differences only."""
    with listening(client) as listener:
        service.set_flag("banner", default="Welcome")
        service.stop()
        assert listener.rest() == b""


def test_faults_are_checked(service: LocalService) -> None:
    """A fault that makes no sense is an error, not a surprise."""
    with pytest.raises(FaultError, match="did you mean"):
        service.fault("evaluat", status=500)
    assert service.clear_faults() == 0


def test_faults_can_be_set_before_the_start() -> None:
    """A fault set while nothing runs is in force from the first request on."""
    service = LocalService(FLAGS)
    fault_id = service.fault("evaluate", status=503)
    service.fault("stream", drop=True, live=True)
    with service, connect(service) as client:
        assert client.post("/v1/evaluate", json=BODY).status_code == 503
        assert service.clear_faults(fault_id) == 1
        assert client.post("/v1/evaluate", json=BODY).status_code == 200


def test_waiting_for_streams_ends(service: LocalService, client: httpx.Client) -> None:
    """Waiting for a stream says whether it came."""
    assert not service.wait_for_streams(1, timeout=0.02)
    with listening(client):
        assert service.wait_for_streams(1)


def test_a_saved_file_reaches_a_stream(
    tmp_path: Path, record_property: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Saving the flags file is announced on every stream, and the next request sees it."""
    caplog.set_level("INFO", "shipsilently.local")
    path = tmp_path / "flags.yaml"
    path.write_text("flags: {f: {default: 0}}")
    times = []
    with LocalService(path) as service, connect(service) as client, listening(client) as listener:
        for number in range(1, 6):
            start = time.monotonic()
            path.write_text(f"flags: {{f: {{default: {number}}}}}")
            assert listener.next()[0] == "flags.updated"
            times.append(time.monotonic() - start)
            assert value(client, "f") == number
    record_property("save_to_stream_ms", [round(each * 1000) for each in times])
    assert max(times) < 2.0
    assert caplog.messages == [f"{path}: reloaded, 1 flag."] * 5


def test_a_file_that_turns_wrong_changes_nothing(tmp_path: Path) -> None:
    """While the file is wrong the last good flags are served, and each turn is told once."""
    path = tmp_path / "flags.json"
    path.write_text('{"flags": {"f": {"default": 1}}}')
    told: list[str] = []
    heard = threading.Event()

    def report(line: str) -> None:
        told.append(line)
        heard.set()

    with LocalService(path, report=report) as service, connect(service) as client:
        path.write_text('{"flags": {"f": {"defautl": 2}}}')
        assert heard.wait(5)
        assert value(client, "f") == 1
        heard.clear()
        path.write_text('{"flags": {"f": {"default": 3}}}')
        assert heard.wait(5)
        assert value(client, "f") == 3
    assert 'did you mean "default"' in told[0]
    assert told[1:] == [f"{path} is right again: 1 flag."]


def test_a_file_changed_while_nothing_ran_is_read_at_the_start(tmp_path: Path) -> None:
    """What was saved between two runs is in force from the first request of the second."""
    path = tmp_path / "flags.toml"
    path.write_text("[flags.f]\ndefault = 1\n")
    service = LocalService(path)
    path.write_text("[flags.f]\ndefault = 2\n")
    with service, connect(service) as client:
        assert value(client, "f") == 2
        service.stop()
        service.set_flag("f", default=3)
        service.start()
        assert value(client, "f") == 3
    assert 'default" = 3' in path.read_text()


def test_many_at_once_are_answered(service: LocalService) -> None:
    """Sixteen threads get their own right answers while the flags change."""
    wrong: list[object] = []

    def ask(plan: str, expected: bool) -> None:
        with connect(service) as client:
            for _ in range(20):
                body = {"flagKey": "checkout-v2", "context": {"plan": plan}}
                got = client.post("/v1/evaluate", json=body).json()["value"]
                if got is not expected:
                    wrong.append((plan, got))

    threads = [
        threading.Thread(target=ask, args=(plan, plan == "pro")) for plan in ("pro", "free") * 8
    ]
    for thread in threads:
        thread.start()
    for number in range(20):
        service.set_flag("banner", default=str(number))
    for thread in threads:
        thread.join(30)
    assert wrong == []


def test_a_connection_is_kept_between_requests(service: LocalService) -> None:
    """Two requests on one connection are answered in turn."""
    with connection(service) as sock:
        for _ in range(2):
            sock.sendall(request(service, "/v1/evaluate", BODY))
            answer = b""
            for _, data in pieces(sock):
                answer += data
                if answer.endswith(b"}"):
                    break
            assert answer.startswith(b"HTTP/1.1 200")


def test_a_wrong_file_is_a_warning_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a report of one's own, a file that turns wrong is seen in any log."""
    path = tmp_path / "flags.toml"
    path.write_text("[flags.f]\ndefault = 1\n")
    service = LocalService(path)
    path.write_text("x")
    with service:
        assert service.state()["flags"] == ["f"]
    (record,) = [each for each in caplog.records if each.name == "shipsilently.local"]
    assert record.levelname == "WARNING"
    assert record.getMessage().endswith("Still serving the last good flags.")
