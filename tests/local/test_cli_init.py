"""``shipsilently init`` and ``shipsilently schema``."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from shipsilently_cli import main
from shipsilently_local.flagsfile import load
from shipsilently_local.schema import render_schema


def test_the_starter_file_is_right(tmp_path: Path) -> None:
    """The file that is written passes the checks and shows a rule and a rollout."""
    path = tmp_path / "flags.toml"
    shown = CliRunner().invoke(main, ["init", str(path)])
    assert (shown.exit_code, shown.output) == (
        0,
        f"Wrote {path}. Next:  shipsilently serve {path}\n",
    )
    rules = load(path).flags["new-checkout"].rules
    assert [rule.rollout for rule in rules] == [None, 10]


def test_the_next_command_can_be_pasted(tmp_path: Path) -> None:
    """A name with a blank comes in quotes, as a shell wants it."""
    path = tmp_path / "my flags.toml"
    shown = CliRunner().invoke(main, ["init", str(path)])
    assert shown.output == f"Wrote {path}. Next:  shipsilently serve '{path}'\n"


def test_the_file_has_a_usual_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a name the file is flags.toml in the present folder."""
    monkeypatch.chdir(tmp_path)
    assert CliRunner().invoke(main, ["init"]).exit_code == 0
    assert (tmp_path / "flags.toml").is_file()


def test_nothing_is_written_over(tmp_path: Path) -> None:
    """A file that exists is left as it is."""
    path = tmp_path / "flags.toml"
    path.write_text("mine")
    shown = CliRunner().invoke(main, ["init", str(path)])
    assert (shown.exit_code, shown.output) == (
        2,
        f"Error: {path} exists already; nothing was changed\n",
    )
    assert path.read_text() == "mine"


def test_only_toml_is_written(tmp_path: Path) -> None:
    """Another suffix is refused, for the text would not be of its syntax."""
    shown = CliRunner().invoke(main, ["init", str(tmp_path / "flags.yaml")])
    assert shown.exit_code == 2
    assert "expected a name that ends in .toml" in shown.output


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """A folder that does not exist is an error in one line."""
    shown = CliRunner().invoke(main, ["init", str(tmp_path / "no" / "flags.toml")])
    assert shown.exit_code == 2
    assert "No such file or directory" in shown.output


def test_the_schema_is_printed() -> None:
    """``schema`` prints the schema that the package ships."""
    shown = CliRunner().invoke(main, ["schema"])
    assert (shown.exit_code, shown.output) == (0, render_schema())
