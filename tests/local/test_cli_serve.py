"""``shipsilently serve``, as a process with real signals."""

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from .conftest import listening

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A flags file with two flags."""
    path = tmp_path / "flags.toml"
    path.write_text("[flags.a]\ndefault = 1\n[flags.b]\ndefault = 2\n")
    return path


class Serving:
    """A running ``shipsilently serve`` and what it has printed."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "shipsilently_cli", "serve", *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A background job of a shell inherits SIGINT ignored; a person's terminal does not.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        self.lines: list[str] = []

    def read_until(self, text: str) -> str:
        """The next line with ``text`` in it."""
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.append(line.rstrip("\n"))
            if text in line:
                return self.lines[-1]
        assert self.process.stderr
        raise AssertionError(f"ended: {self.lines} {self.process.stderr.read()}")

    def end(self, number: signal.Signals) -> tuple[int, str, str]:
        """Send a signal; the exit status and the rest of both outputs."""
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=10)
        return self.process.returncode, out, err


@contextmanager
def serving(*arguments: str) -> Iterator[Serving]:
    """The command, which is killed if the test leaves it running, or after 30 seconds."""
    command = Serving(*arguments)
    limit = threading.Timer(30, command.process.kill)
    limit.start()
    try:
        yield command
    finally:
        limit.cancel()
        limit.join()
        command.process.kill()
        command.process.communicate()


def test_it_greets_with_what_an_app_needs(path: Path) -> None:
    """The first lines give address, key, number of flags, and the app's environment."""
    with serving(str(path), "--port", "0", "--key", "sk_mine") as command:
        command.read_until("Ctrl-C ends")
        url = next(line for line in command.lines if line.startswith("  url")).split()[1]
        assert command.lines == [
            f"ShipSilently is running on this machine: 2 flags from {path}",
            f"  url  {url}",
            "  key  sk_mine",
            "Start your app with",
            f"  SHIPSILENTLY_API_URL={url} SHIPSILENTLY_API_KEY=sk_mine",
            "Save the file to change a flag. Ctrl-C ends.",
        ]
        headers = {"X-API-Key": "sk_mine"}
        body = {"flagKey": "b", "context": {}}
        assert httpx.post(f"{url}/v1/evaluate", json=body, headers=headers).json()["value"] == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_cleanly_with_streams_open(path: Path, number: signal.Signals) -> None:
    """Ctrl-C and SIGTERM end it with status 0 and no noise, though streams are open."""
    with serving(str(path), "--port", "0", "--heartbeat", "0.05") as command:
        url = command.read_until("  url").split()[1]
        with (
            httpx.Client(base_url=url, headers={"X-API-Key": "sk_local"}) as client,
            listening(client) as listener,
        ):
            assert listener.next()[0] == "heartbeat"
            command.read_until("Ctrl-C ends")
            assert command.end(number) == (0, "Stopped.\n", "")
            listener.rest()


def test_a_second_signal_does_not_disturb_the_end(path: Path) -> None:
    """An impatient second Ctrl-C changes nothing."""
    with serving(str(path), "--port", "0") as command:
        command.read_until("Ctrl-C ends")
        command.process.send_signal(signal.SIGINT)
        assert command.end(signal.SIGINT) == (0, "Stopped.\n", "")


def test_each_reload_is_one_line(path: Path) -> None:
    """A save is one line, and so are a file that turns wrong and one that is right again."""
    with serving(str(path), "--port", "0") as command:
        command.read_until("Ctrl-C ends")
        path.write_text("[flags.a]\ndefault = 2\n")
        assert command.read_until("flags.toml") == f"{path}: reloaded, 1 flag."
        path.write_text("[flags.a]\ndefault =\n")
        assert "Still serving the last good flags" in command.read_until("flags.toml")
        path.write_text("[flags.a]\ndefault = 2\n")
        assert command.read_until("flags.toml") == f"{path} is right again: 1 flag."


def test_it_goes_on_when_nobody_reads_any_more(path: Path) -> None:
    """Behind a pipe whose reader has gone, as `head` goes, saves are followed as before."""
    with serving(str(path), "--port", "0") as command:
        url = command.read_until("  url").split()[1]
        assert command.process.stdout
        command.process.stdout.close()
        with (
            httpx.Client(base_url=url, headers={"X-API-Key": "sk_local"}) as client,
            listening(client) as listener,
        ):
            for value in (3, 4):
                path.write_text(f"[flags.a]\ndefault = {value}\n")
                assert listener.next()[0] == "flags.updated"
                answer = client.post("/v1/evaluate", json={"flagKey": "a", "context": {}})
                assert answer.json()["value"] == value
            command.process.send_signal(signal.SIGTERM)
            assert command.process.wait(10) == 0
            assert command.process.stderr
            assert command.process.stderr.read() == ""
            listener.rest()


def test_a_taken_port_is_told(path: Path) -> None:
    """A port in use ends it with status 2 and a way out."""
    with serving(str(path), "--port", "0") as first:
        port = first.read_until("  url").rpartition(":")[2]
        with serving(str(path), "--port", port) as second:
            out, err = second.process.communicate(timeout=10)
            assert (second.process.returncode, out) == (2, "")
            assert err == (
                f"Error: port {port} of 127.0.0.1 is already in use: "
                "choose another with --port, or --port 0 for any free one\n"
            )


def test_a_wrong_file_is_told(path: Path) -> None:
    """A wrong file ends it with status 2 and the place of the fault."""
    path.write_text("[flags.a]\ndefualt = 1\n")
    with serving(str(path), "--port", "0") as command:
        out, err = command.process.communicate(timeout=10)
        assert (command.process.returncode, out) == (2, "")
        assert err == (
            f'Error: {path}: flag "a", field "defualt": there is no such field; '
            'did you mean "default"?\n'
        )


def test_an_ignored_interrupt_stays_ignored(path: Path) -> None:
    """In a background job, where SIGINT is ignored, only SIGTERM ends it."""
    command = subprocess.Popen(
        [sys.executable, "-m", "shipsilently_cli", "serve", str(path), "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        assert command.stdout
        assert any("Ctrl-C ends" in line for line in command.stdout)
        command.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            command.wait(0.3)
        command.terminate()
        assert command.wait(10) == 0
    finally:
        command.kill()
        command.communicate()
