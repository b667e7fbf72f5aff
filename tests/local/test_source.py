"""Where the flags come from, and what people are told about it."""

from pathlib import Path

import pytest

from shipsilently_local import FlagsFileError
from shipsilently_local.source import FileSource, MappingSource, plain_flags

ONE = "[flags.a]\ndefault = 1\n"
TWO = "[flags.a]\ndefault = 2\n[flags.b]\ndefault = 2\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A flags file with one flag."""
    path = tmp_path / "flags.toml"
    path.write_text(ONE)
    return path


def test_a_bare_value_is_a_flag() -> None:
    """In a mapping a value stands for a flag that has it as its default."""
    assert plain_flags({"a": True, "b": {"default": 1}}) == {
        "a": {"default": True},
        "b": {"default": 1},
    }


def test_a_mapping_is_checked_and_edited() -> None:
    """A mapping's flags are checked like a file's, and a wrong edit changes nothing."""
    source = MappingSource({"a": 1})
    source.edit(lambda flags: flags.update(b={"default": 2}))
    assert list(source.flags) == ["a", "b"]
    with pytest.raises(FlagsFileError, match='flags: flag "a", field "default": missing'):
        source.edit(lambda flags: flags.update(a={}))
    assert source.flags["a"].default == 1


def test_a_changed_file_is_reloaded_and_told(path: Path) -> None:
    """A file that says something new is one line."""
    told: list[str] = []
    source = FileSource(path, told.append, told.append)
    path.write_text(TWO)
    assert source.refresh()
    assert source.flags["a"].default == 2
    path.write_text(ONE)
    assert source.refresh()
    assert told == [f"{path}: reloaded, 2 flags.", f"{path}: reloaded, 1 flag."]


def test_a_save_that_changes_nothing_is_not_told(path: Path) -> None:
    """The same bytes, or other bytes with the same meaning, are no change."""
    told: list[str] = []
    source = FileSource(path, told.append, told.append)
    assert not source.refresh()
    path.write_text("# a comment\n" + ONE)
    assert not source.refresh()
    assert told == []


@pytest.mark.parametrize("wrong", ["x", "", "[flags.a]\nenabled = true\n"])
def test_a_wrong_file_keeps_the_last_good_flags(path: Path, wrong: str) -> None:
    """A file that turns wrong is told once, again when it is wrong otherwise, and when right."""
    told: list[str] = []
    source = FileSource(path, told.append, told.append)
    path.write_text(wrong)
    assert not source.refresh()
    assert not source.refresh()
    assert source.flags["a"].default == 1
    assert len(told) == 1
    assert told[0].startswith(str(path))
    assert told[0].endswith("Still serving the last good flags.")
    path.unlink()
    assert not source.refresh()
    assert "cannot read the file" in told[1]
    path.write_text(ONE)
    assert not source.refresh()
    assert told[2:] == [f"{path} is right again: 1 flag."]
    assert not source.refresh()
    assert len(told) == 3


def test_a_file_wrong_for_a_moment_is_not_told(path: Path) -> None:
    """An editor in the middle of saving causes no alarm."""
    told: list[str] = []
    source = FileSource(path, told.append, told.append, pause=lambda seconds: path.write_text(TWO))
    path.write_text("")
    assert source.refresh()
    assert told == [f"{path}: reloaded, 2 flags."]


def test_a_wrong_file_is_refused_at_the_start(tmp_path: Path) -> None:
    """There are no last good flags at the start, so a wrong file is an error."""
    with pytest.raises(FlagsFileError, match="cannot read the file"):
        FileSource(tmp_path / "flags.toml", print, print)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("flags.toml", '"$schema" = "x"\n' + ONE),
        ("flags.json", '{"$schema": "x", "flags": {"a": {"default": 1}}}'),
        ("flags.yaml", "$schema: x\nflags:\n  a:\n    default: 1\n"),
    ],
)
def test_a_file_is_edited_in_its_own_syntax(tmp_path: Path, name: str, text: str) -> None:
    """An edit is written back, is in force at once, and is no change afterwards."""
    path = tmp_path / name
    path.write_text(text)
    told: list[str] = []
    source = FileSource(path, told.append, told.append)
    source.edit(lambda flags: flags.update({"b/ü": {"default": {"x": [1, "y"]}}}))
    assert source.flags["b/ü"].default == {"x": [1, "y"]}
    assert "$schema" in path.read_text()
    assert not source.refresh()
    assert FileSource(path, told.append, told.append).flags == source.flags
    assert told == []


def test_a_null_is_refused_where_the_file_has_none(path: Path) -> None:
    """An edit that TOML has no form for is told by its flag, not by a line of no file."""
    source = FileSource(path, print, print)
    with pytest.raises(FlagsFileError) as raised:
        source.edit(lambda flags: flags.update(a={"default": {"b": [None]}}))
    assert str(raised.value) == (
        f'{path}: flag "a", field "default": holds a null, which TOML does not have'
    )
    assert path.read_text() == ONE


def test_a_wrong_edit_leaves_the_file_alone(path: Path) -> None:
    """An edit that would make the file wrong is refused before it is written."""
    source = FileSource(path, print, print)
    with pytest.raises(FlagsFileError, match='flag "a", field "default"'):
        source.edit(lambda flags: flags.update(a={"default": [1]}))
    assert path.read_text() == ONE
    assert source.flags["a"].default == 1


def test_who_is_told_cannot_keep_a_change_back(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Where telling raises, the flags are followed all the same, and the log has the line."""

    def gone(line: str) -> None:
        raise BrokenPipeError

    source = FileSource(path, gone, gone)
    path.write_text(TWO)
    assert source.refresh()
    assert source.flags["a"].default == 2
    path.write_text("")
    assert not source.refresh()
    path.write_text(ONE)
    assert source.refresh()
    first, second, third = [record.getMessage() for record in caplog.records]
    assert first == f"could not report: {path}: reloaded, 2 flags."
    assert second.startswith(f"could not report: {path}: the file is empty")
    assert third == f"could not report: {path} is right again: 1 flag."
