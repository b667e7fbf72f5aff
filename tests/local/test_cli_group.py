"""The command group."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from shipsilently_cli import main
from shipsilently_cli.group import COMMANDS, LazyGroup, Subcommand
from shipsilently_core._version import __version__

ROOT = Path(__file__).resolve().parent.parent.parent

WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
from shipsilently_cli import main
sys.argv = ["shipsilently", *{arguments!r}]
main()
"""


def run_without(missing: set[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in a process in which some libraries are not installed."""
    script = WITHOUT.format(missing=missing, arguments=arguments)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_the_help_lists_every_command() -> None:
    """The help has each subcommand with a line of its own, in the table's order."""
    shown = CliRunner().invoke(main, ["--help"])
    assert shown.exit_code == 0
    places = [shown.output.index(f"  {name} ") for name in COMMANDS]
    assert places == sorted(places)


def test_the_help_needs_click_only() -> None:
    """With nothing but click installed the help works."""
    libraries = {"starlette", "uvicorn", "watchfiles", "yaml", "msgspec", "httpx", "blinker"}
    shown = run_without(libraries | {"rich"}, "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "serve" in shown.stdout


@pytest.mark.parametrize("library", ["starlette", "uvicorn", "watchfiles"])
def test_a_missing_library_is_one_line(library: str) -> None:
    """A command without its library says in one line what to install."""
    shown = run_without({library}, "serve", "flags.toml")
    assert shown.returncode == 2
    assert shown.stderr == (
        f"Error: `shipsilently serve` needs {library}: "
        "install it with  pip install 'shipsilently[local]'\n"
    )


def test_without_click_there_is_one_line() -> None:
    """Without click too, the command says in one line what to install."""
    shown = run_without({"click"}, "--help")
    assert shown.returncode == 1
    assert shown.stderr == (
        "shipsilently needs click: install it with  pip install 'shipsilently[cli]'\n"
    )


def test_another_missing_module_is_not_hidden() -> None:
    """A fault in the project's own imports is shown as what it is."""
    table = {"broken": Subcommand("shipsilently_cli.nothing_here", "Broken.", "cli")}
    group = LazyGroup("g", table=table)
    with pytest.raises(ModuleNotFoundError, match="nothing_here"):
        group.get_command(click.Context(group), "broken")


def test_the_version_is_the_distributions() -> None:
    """``--version`` says the version that the package has."""
    shown = CliRunner().invoke(main, ["--version"])
    assert (shown.exit_code, shown.output) == (0, f"shipsilently {__version__}\n")


def test_the_names_are_known_without_an_import() -> None:
    """Shell completion gets the names from the table."""
    assert main.list_commands(click.Context(main)) == list(COMMANDS)


def test_an_unknown_command_is_told() -> None:
    """A name that is no subcommand is a usage error."""
    shown = CliRunner().invoke(main, ["srve"])
    assert shown.exit_code == 2
    assert "No such command 'srve'" in shown.output


def test_it_runs_as_a_module() -> None:
    """``python -m shipsilently_cli`` is the same command."""
    shown = subprocess.run(
        [sys.executable, "-W", "error", "-m", "shipsilently_cli", "--version"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (shown.stdout, shown.stderr) == (f"shipsilently {__version__}\n", "")
