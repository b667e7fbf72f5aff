"""``shipsilently demo``: its parts alone, and the command as a process with real signals."""

import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import httpx
import pytest
from click.testing import CliRunner
from rich.console import Console

from shipsilently_cli import main
from shipsilently_cli._board import Board, Step, make_console, outage_cell
from shipsilently_cli._flagtext import save, with_default, without_schema
from shipsilently_cli._pages import Glance, NotSeenError, Page, Timing
from shipsilently_cli._processes import Children, free_ports
from shipsilently_cli._reaper import left_over
from shipsilently_cli._rehearsal import StepFailedError, perform
from shipsilently_cli._sites import environment, example_sites, find_examples, missing_libraries
from shipsilently_cli._stage import Stage
from tests.cli.streams import APART

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
FRAMEWORKS = ["Django", "Flask", "FastAPI"]

# The flags file's text.

TEXT = """\
# flags
[flags.a]
enabled = true  # default = 1
default = false # off

[[flags.a.rules]]
serve = true

[flags.b]
default = "blue"
"""


def test_one_line_of_the_flags_file_changes() -> None:
    """A new default replaces the old one of its flag, and nothing else, comments included."""
    changed = with_default(TEXT, "a", "true")
    assert changed == TEXT.replace("default = false #", "default = true #")
    assert with_default(TEXT, "b", '"green"') == TEXT.replace("blue", "green")


@pytest.mark.parametrize("flag", ["c", "a.rules", ""])
def test_a_flag_without_a_default_is_told(flag: str) -> None:
    """Where there is no such line the edit is refused, instead of being lost."""
    with pytest.raises(ValueError, match="no line sets a default"):
        with_default(TEXT, flag, "true")


def test_a_default_is_never_taken_from_the_next_flag() -> None:
    """A flag that has no default does not get its neighbour's changed."""
    with pytest.raises(ValueError, match=r"default below \[flags\.a\]"):
        with_default("[flags.a]\nenabled = true\n[flags.b]\ndefault = 1\n", "a", "2")


def test_the_examples_flags_can_be_switched() -> None:
    """The flags file of the examples, as shipped, takes the demo's edits and stays TOML."""
    text = without_schema((EXAMPLES / "flags.toml").read_text(encoding="utf-8"))
    assert "#:schema" not in text
    text = with_default(with_default(text, "new-checkout", "true"), "banner", '"green"')
    flags = tomllib.loads(text)["flags"]
    assert (flags["new-checkout"]["default"], flags["banner"]["default"]) == (True, "green")


def test_a_save_leaves_the_file_alone_in_its_folder(tmp_path: Path) -> None:
    """Saving replaces the file in one step and leaves no draft."""
    path = tmp_path / "flags.toml"
    for text in ("é", "b"):
        save(path, text)
        assert path.read_text(encoding="utf-8") == text
    assert list(tmp_path.iterdir()) == [path]


# The sites.


def test_the_examples_of_an_installed_package_come_first(tmp_path: Path) -> None:
    """The sites are looked for in the package, then beside it, then told to be missing."""
    package = tmp_path / "package"
    with pytest.raises(FileNotFoundError, match="example sites are not there"):
        find_examples(package)
    for place in (tmp_path / "examples", package / "examples"):
        place.mkdir(parents=True)
        (place / "flags.toml").touch()
        assert find_examples(package) == place


def test_the_environment_of_the_sites_is_clean() -> None:
    """Of this process's environment the sites get what cannot change how they behave."""
    base = {
        "PATH": "/bin",
        "DEBUG": "0",
        "HTTPS": "1",
        "FLASK_DEBUG": "1",
        "DJANGO_SETTINGS_MODULE": "x",
        "SHIPSILENTLY_KEY": "sk_live",
        "HTTP_PROXY": "http://proxy",
        "no_proxy": "intranet",
    }
    found = environment(base, api_url="u", api_key="k", database=Path("db"))
    assert found == {
        "PATH": "/bin",
        "HTTP_PROXY": "http://proxy",
        "NO_PROXY": "intranet,127.0.0.1",
        "no_proxy": "intranet,127.0.0.1",
        "SHIPSILENTLY_API_URL": "u",
        "SHIPSILENTLY_API_KEY": "k",
        "EXAMPLE_DB": "db",
        "PYTHONUNBUFFERED": "1",
    }


def test_missing_libraries_are_listed_by_extra() -> None:
    """What cannot be found is named beside the extra that brings it."""
    gone = {"flask", "jinja2", "yaml"}
    found = missing_libraries(lambda name: None if name in gone else name)
    assert found == {"flask": ["flask"], "local": ["yaml"], "examples": ["jinja2"]}
    assert missing_libraries() == {}


def test_commands_name_the_port() -> None:
    """Each site's command has its port in it, on 127.0.0.1 at most."""
    for site in example_sites(EXAMPLES):
        command = site.serve_on(4242)
        assert command[0] == sys.executable
        assert any(part.endswith("4242") for part in command)


# Processes.


def test_what_was_started_and_has_not_ended_is_left_over() -> None:
    """Of the processes that were announced those are left that were not signed off."""
    assert left_over(["+1\n", "+2\n", "-1\n", "+33\n"]) == {2, 33}


def test_free_ports_are_free_and_different() -> None:
    """Each port can be listened on, and stays below those of outgoing connections."""
    ports = free_ports(4)
    assert len(set(ports)) == 4
    for port in ports:
        assert port < 32_768
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_a_child_that_ignores_the_request_to_end_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a while a child that does not end by itself is made to, with what it started."""
    monkeypatch.setattr("shipsilently_cli._processes._PATIENCE", 0.2)
    code = (
        "import signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "subprocess.Popen([sys.executable, '-c', 'import signal, time;'\n"
        " 'signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)'])\n"
        "time.sleep(60)\n"
    )
    with Children(tmp_path) as children:
        env = os.environ | {"MARK": str(tmp_path)}
        child = children.start("Deaf", [sys.executable, "-c", code], folder=tmp_path, env=env)
        wait_for(lambda: child.last_lines() == ["1"])
        assert not child.ended
    assert child.ended
    wait_for(lambda: not survivors(tmp_path))


def test_children_end_without_the_reaper_too(tmp_path: Path) -> None:
    """Without the reaper children end with their block too, and what they started with them."""
    code = (
        "import subprocess, sys\n"
        "subprocess.Popen([sys.executable, '-c', 'import signal, time;'\n"
        " 'signal.signal(signal.SIGTERM, signal.SIG_IGN); print(1, flush=True); time.sleep(60)'])\n"
        "import time; time.sleep(60)\n"
    )
    with Children(tmp_path) as children:
        children._reaper.kill()
        children._reaper.wait()
        env = os.environ | {"MARK": str(tmp_path)}
        child = children.start("Child", [sys.executable, "-c", code], folder=tmp_path, env=env)
        wait_for(lambda: child.last_lines() == ["1"])
    assert child.ended
    wait_for(lambda: not survivors(tmp_path))


# Pages.

OLD = '<section class="x" id="checkout" data-variation="old">'
NEW = OLD.replace("old", "new")


def page_of(*answers: str | int | httpx.HTTPError) -> Page:
    """A page that gives these answers, the last one again and again."""
    left = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        given = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(given, httpx.HTTPError):
            raise given
        if isinstance(given, int):
            return httpx.Response(given, text=NEW)
        return httpx.Response(200, text=given)

    return Page(httpx.AsyncClient(transport=httpx.MockTransport(answer)), "http://127.0.0.1/")


@pytest.mark.parametrize(
    ("answer", "variation", "words"),
    [
        (OLD, "old", "the page with the old checkout"),
        (NEW, "new", "the page with the new checkout"),
        ("<p>", None, "a page without a checkout"),
        (500, None, "status 500"),
        (httpx.ReadTimeout(""), None, "no answer (ReadTimeout)"),
    ],
)
async def test_what_a_request_has_given_is_told(
    answer: str | int | httpx.HTTPError, variation: str | None, words: str
) -> None:
    """A glance at a page says which checkout it has, or in words what came instead."""
    glance = await page_of(answer).look()
    assert (glance.variation, str(glance)) == (variation, words)
    assert isinstance(glance, Glance)


async def test_a_page_is_watched_until_it_changes() -> None:
    """Failures and the old page are waited out; the time until the new one is given."""
    assert 0 < await page_of(OLD, 500, httpx.ConnectError(""), NEW).becomes("new", 5.0) < 5000


async def test_a_page_that_does_not_change_is_given_up() -> None:
    """After the limit the error says what was expected and what was seen last."""
    with pytest.raises(NotSeenError, match=r"the new checkout within 0\.01 s.*the old checkout"):
        await page_of(OLD).becomes("new", 0.01)


async def test_a_page_that_should_stay_is_held_to_it() -> None:
    """One request with something else than expected is enough."""
    page = page_of(NEW, OLD)
    assert await page.stays("new") >= 0
    with pytest.raises(NotSeenError, match=r"new checkout to stay, seen: .* old"):
        await page.stays("new")


def test_times_are_summed_up() -> None:
    """Single times become their median and the worst of them."""
    assert Timing.of([3.0, 1.0, 9.0]) == Timing(3.0, 9.0)


# What is shown.


def shown(*, terminal: bool) -> str:
    """What a board puts out that got one cell and one failure."""
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=100, highlight=False)
    with Board(FRAMEWORKS, console) as board:
        board.say("Working ...")
        board.fill("Flask", Step.KILLED, outage_cell(Timing(2.5, 9.0), Timing(2.0, 10.0)))
        board.fail("Django", Step.KILLED)
    return out.getvalue()


def test_a_log_gets_a_line_per_cell_and_the_table_at_the_end() -> None:
    """Outside a terminal nothing moves a cursor: plain lines, then the table once."""
    text = shown(terminal=False)
    assert "\x1b" not in text
    lines, table = text.split("\n\n", 1)
    assert lines.splitlines() == [
        "Working ...",
        "  Flask    service killed              new page, 2.5 ms (+0.5), max 9.0 (-1.0)",
        "  Django   service killed              FAILED",
    ]
    assert [table.count(name) for name in FRAMEWORKS] == [1, 1, 1]
    assert table.count("FAILED") == 1
    assert "2.5 ms (+0.5)" in table


def test_a_terminal_gets_the_table_from_the_start() -> None:
    """In a terminal the table is there at once and drawn again as it fills."""
    text = shown(terminal=True)
    assert text.count("FastAPI") > 2
    assert "\x1b" in text


def test_a_log_without_unicode_is_no_obstacle() -> None:
    """The table needs only ASCII where the output has nothing more."""
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    with Board(FRAMEWORKS, Console(file=out, width=100)) as board:
        board.fill("Flask", Step.OFF, "old page")
    assert b"old page" in raw.getvalue()


def test_the_table_fits_an_old_terminal() -> None:
    """With every cell filled as usual 80 columns are enough: no cell is cut or broken."""
    out = io.StringIO()
    with Board(FRAMEWORKS, Console(file=out, width=80, highlight=False)) as board:
        cells = ["old page", "new page\nafter 43 ms", "", "", "old page\nafter 2784 ms"]
        cells[2] = cells[3] = outage_cell(Timing(5.5, 13.6), Timing(4.0, 9.0))
        for name in FRAMEWORKS:
            for step, cell in zip(Step, cells, strict=True):
                board.fill(name, step, cell)
    table = out.getvalue().split("\n\n", 1)[1]
    assert max(map(len, table.splitlines())) <= 80
    for cell in ("5.5 ms (+1.5)", "max 13.6 (+4.6)"):
        assert table.count(cell) == 6
    assert table.count("after 2784 ms") == 3


def test_continuous_integration_counts_as_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where CI is set no cursor moves, though the output may pass for a terminal."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.delenv("CI", raising=False)
    assert make_console().is_terminal
    monkeypatch.setenv("CI", "true")
    console = make_console()
    assert (console.is_terminal, console.width) == (False, 100)


# The steps.


class Rehearsed:
    """Stands in for the stage: pages that follow a file as scripted, no processes."""

    def __init__(self, folder: Path, *, deaf: str = "", forgets: str = "", slow: str = "") -> None:
        self.flags = folder / "flags.toml"
        shutil.copy(EXAMPLES / "flags.toml", self.flags)
        self.calls: list[str] = []
        self._deaf, self._forgets, self._slow = deaf, forgets, slow
        self.pages = {name: cast(Page, _ScriptedPage(self, name)) for name in FRAMEWORKS}

    def on(self, name: str) -> bool:
        """Whether a site shows the flag as on."""
        value: bool = tomllib.loads(self.flags.read_text())["flags"]["new-checkout"]["default"]
        lost = name == self._forgets and "kill" in self.calls
        return value and name != self._deaf and not lost

    def delay(self, name: str) -> float:
        """What a site's page takes longer at present, in seconds."""
        return 0.6 if name == self._slow and "refuse" in self.calls else 0.0

    async def refuse(self) -> None:
        self.calls.append("refuse")

    def kill_service(self) -> None:
        self.calls.append("kill")

    async def start_service(self) -> None:
        self.calls.append("start")

    async def followers(self) -> int:
        return 3


class _ScriptedPage(Page):
    def __init__(self, stage: Rehearsed, name: str) -> None:
        self._stage, self._name = stage, name

    async def look(self) -> Glance:
        variation = "new" if self._stage.on(self._name) else "old"
        return Glance(variation, 1.0 + self._stage.delay(self._name) * 1000)


async def rehearse(stage: Rehearsed) -> None:
    """Go through the steps with scripted pages."""
    board = Board(FRAMEWORKS, Console(file=io.StringIO()))
    await perform(cast(Stage, stage), board)


async def test_all_steps_happen_in_their_order(tmp_path: Path) -> None:
    """The service refuses, is killed and comes back, once each; the flag ends switched off."""
    stage = Rehearsed(tmp_path)
    await rehearse(stage)
    assert stage.calls == ["refuse", "kill", "start"]
    assert not stage.on("Flask")


async def test_a_page_that_does_not_follow_fails_its_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names framework and step and what was seen; no later step is tried."""
    monkeypatch.setattr("shipsilently_cli._rehearsal._LIMIT", 0.1)
    stage = Rehearsed(tmp_path, deaf="Flask")
    with pytest.raises(StepFailedError) as caught:
        await rehearse(stage)
    assert list(caught.value.seen) == ["Flask"]
    assert str(caught.value).startswith("Flask, step 'switched on in the file': expected the new")
    assert stage.calls == []


async def test_a_page_that_forgets_in_an_outage_fails_its_step(tmp_path: Path) -> None:
    """One page without the last known good value fails the step, and no other framework's."""
    with pytest.raises(StepFailedError) as caught:
        await rehearse(Rehearsed(tmp_path, forgets="Django"))
    assert str(caught.value).startswith("Django, step 'service killed': expected the new checkout")


async def test_pages_that_wait_for_the_service_fail_their_step(tmp_path: Path) -> None:
    """A page that is right but waits for a service in trouble does not pass."""
    with pytest.raises(StepFailedError, match="FastAPI, step 'service answers 503': pages wait"):
        await rehearse(Rehearsed(tmp_path, slow="FastAPI"))


# The command.


def survivors(mark: Path) -> list[str]:
    """The processes that have a path in their environment, by their command lines (on Linux)."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(mark).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


def wait_for(happened: Callable[[], bool], limit: float = 20.0) -> None:
    """Wait until something has happened."""
    end = time.monotonic() + limit
    while not happened():
        assert time.monotonic() < end, "it did not happen in time"
        threading.Event().wait(0.02)


# A background job of a shell inherits SIGINT ignored; a person's terminal does not.
_COMMAND = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from shipsilently_cli import main
main(prog_name="shipsilently")
"""


class Running:
    """A running ``shipsilently demo`` with a temporary folder of its own."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", _COMMAND, "demo", *arguments],
            cwd=ROOT,
            env=os.environ | {"TMPDIR": str(folder), "CI": "true"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
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

    def end(self, number: signal.Signals | None = None) -> tuple[int, str, str]:
        """Send a signal, if any; the exit status and the rest of both outputs."""
        if number is not None:
            self.process.send_signal(number)
        out, err = self.process.communicate(timeout=120)
        return self.process.returncode, out, err

    def left_nothing(self) -> bool:
        """Whether no process and no file of it is left."""
        return survivors(self.folder) == [] and list(self.folder.iterdir()) == []


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """Starts the demo; kills what a failed test leaves running."""
    started: list[Running] = []
    folder = tmp_path / "temporary"
    folder.mkdir()

    def start(*arguments: str) -> Running:
        started.append(Running(folder, *arguments))
        return started[-1]

    yield start
    for running in started:
        running.process.kill()
        running.process.communicate()


@pytest.mark.timeout(150)
def test_the_demo_shows_every_step_for_every_framework(run: Callable[..., Running]) -> None:
    """``demo --once`` exits with 0 after a table with all cells, and leaves nothing behind."""
    running = run("--once")
    status, out, err = running.end()
    assert (status, err) == (0, ""), out
    table = out[out.index("───") :]
    for name in FRAMEWORKS:
        assert f"\n{name}" in table
    assert table.count("after ") == 6
    assert table.count("max ") == 6
    assert "FAILED" not in out
    assert "Every step happened" in out
    assert running.left_nothing()


@pytest.mark.timeout(150)
def test_ctrl_c_ends_the_staying_demo(run: Callable[..., Running]) -> None:
    """The staying demo serves at the addresses it names, follows the file, and ends cleanly."""
    running = run()
    running.read_until("Ctrl-C ends")
    places = dict(line.split()[:2] for line in running.lines[-6:-1])
    assert list(places) == [*FRAMEWORKS, "service", "flags"]
    flags = Path(places["flags"])
    save(flags, with_default(flags.read_text(), "new-checkout", "true"))
    with httpx.Client(trust_env=False) as client:
        for name in FRAMEWORKS:
            wait_for(lambda name=name: NEW[-20:] in client.get(places[name]).text)  # type: ignore[misc]
    assert running.end(signal.SIGINT) == (0, "Stopped.\n", "")
    assert running.left_nothing()


@pytest.mark.timeout(150)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_between_the_steps(
    run: Callable[..., Running], number: signal.Signals
) -> None:
    """Ended before its last step it has the signal's status, says so, and leaves nothing."""
    running = run("--once")
    running.read_until("Starting the service")
    wait_for(lambda: any(running.folder.glob("*/django.log")))
    status, out, err = running.end(number)
    assert (status, err) == (128 + number, "")
    assert out.endswith("Stopped.\n")
    assert running.left_nothing()


@pytest.mark.timeout(150)
def test_a_killed_demo_leaves_nothing(run: Callable[..., Running]) -> None:
    """Even when the demo is killed its children and its folder go."""
    running = run("--once")
    running.read_until("flag off")
    running.end(signal.SIGKILL)
    wait_for(running.left_nothing)


@pytest.mark.timeout(150)
def test_a_site_that_cannot_start_is_named(tmp_path: Path, run: Callable[..., Running]) -> None:
    """A broken site makes the demo exit with 1, with its name and the last lines it put out."""
    examples = tmp_path / "examples"
    shutil.copytree(EXAMPLES, examples, ignore=shutil.ignore_patterns("__pycache__"))
    (examples / "flask" / "app.py").write_text("raise SystemExit('the shop has burnt down')\n")
    running = run("--once", "--examples", str(examples))
    status, _, err = running.end()
    assert status == 1
    assert "FAILED: Flask ended at once, with status 1" in err
    assert "the shop has burnt down" in err
    assert "Traceback" not in err
    assert running.left_nothing()


@pytest.mark.timeout(150)
def test_a_refusal_of_the_service_is_one_line(tmp_path: Path, run: Callable[..., Running]) -> None:
    """What keeps the service from running is told in its own words, with status 2."""
    text = (EXAMPLES / "flags.toml").read_text(encoding="utf-8") + "\n[flags.a]\nenabled = 3\n"
    (tmp_path / "flags.toml").write_text(text, encoding="utf-8")
    running = run("--once", "--examples", str(tmp_path))
    status, _, err = running.end()
    assert status == 2
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert running.left_nothing()


def test_missing_examples_are_one_line(tmp_path: Path) -> None:
    """A folder without the sites' flags file is told in one line, with status 2."""
    result = CliRunner(**APART).invoke(main, ["demo", "--once", "--examples", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"Error: cannot read {tmp_path.resolve() / 'flags.toml'}")
    assert result.stderr.count("\n") == 1


def test_a_flags_file_that_cannot_be_switched_is_one_line(tmp_path: Path) -> None:
    """A flags file without the demo's flags is told in one line, with status 2."""
    (tmp_path / "flags.toml").write_text("[flags.new-checkout]\ndefault = false\n")
    result = CliRunner(**APART).invoke(main, ["demo", "--once", "--examples", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.endswith("flags.toml: no line sets a default below [flags.banner]\n")


def test_missing_packages_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """A framework that is not installed is named with the extra that brings it, with status 2."""
    monkeypatch.setitem(sys.modules, "flask", None)
    result = CliRunner(**APART).invoke(main, ["demo", "--once"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        "Error: `shipsilently demo` needs flask: "
        "install with  pip install 'shipsilently[flask,cli]'\n"
    )


def test_signals_that_are_ignored_stay_ignored(tmp_path: Path) -> None:
    """A shell's background job, which ignores SIGINT, is not ended by one."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        CliRunner(**APART).invoke(main, ["demo", "--once", "--examples", str(tmp_path)])
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
