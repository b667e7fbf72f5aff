"""Reads of flags are found in code and templates."""

from pathlib import Path

import pytest

from shipsilently_cli.checkup.sources import Read, reads_in


def found(folder: Path, name: str, text: str) -> list[tuple[str, bool]]:
    """The key of each read, and whether it has a default."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return [(read.key, read.has_default) for read in reads_in([folder])]


@pytest.mark.parametrize(
    ("code", "reads"),
    [
        ('flags.get("x")', [("x", False)]),
        ('request.flags.get("x", 1)', [("x", True)]),
        ('await flags.ais_enabled("x", default=True)', [("x", True)]),
        ('client.evaluate("x", {"userId": "u"})', [("x", False)]),
        ('self.client.aevaluate_detail("x", {}, False)', [("x", True)]),
        ('@requires_flag("x", "!y")\ndef f(): ...', [("x", False), ("y", False)]),
        ('if flag_enabled("x"): ...', [("x", False)]),
        ('settings.get("x")', []),
        ("flags.get(key)", []),
        ("flags.get()", []),
        ("(lambda: 0)()", []),
        ("this is not Python", []),
    ],
)
def test_code_is_read(tmp_path: Path, code: str, reads: list[tuple[str, bool]]) -> None:
    """Keys that are written out are found where flags, clients and gates are asked."""
    assert found(tmp_path, "a.py", f"async def f():\n {code}" if "await" in code else code) == reads


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ('{% flag "x" %}', [("x", False)]),
        ("{%- ifflag 'x' == 'blue' %}", [("x", False)]),
        ('{% flag_value "x" default="a" as v %}', [("x", True)]),
        ('{% if flag("x") %}', [("x", False)]),
        ('{{ flag_value("x", "blue") }}', [("x", True)]),
        ('{% if "x" is active_flag %}', [("x", False)]),
        ("{{ flag(key) }}", []),
    ],
)
def test_templates_are_read(tmp_path: Path, text: str, reads: list[tuple[str, bool]]) -> None:
    """The tags, functions and tests of Django's and Jinja's templates are found."""
    assert found(tmp_path, "a.html", text) == reads


@pytest.mark.parametrize(
    "name",
    ["test_a.py", "conftest.py", ".venv/a.py", "node_modules/a.py", "tests/a.py", "a.md"],
)
def test_what_is_not_the_apps_is_left_out(tmp_path: Path, name: str) -> None:
    """Tests, installed libraries and other files are not read."""
    assert found(tmp_path, name, 'flags.get("x")') == []


def test_a_place_is_a_file_and_a_line(tmp_path: Path) -> None:
    """Where a flag is read is told below the folder, or by the file's own name."""
    path = tmp_path / "shop" / "views.py"
    path.parent.mkdir()
    path.write_text('\nflags.get("x")\n')
    assert reads_in([tmp_path]) == [Read("x", str(Path("shop/views.py:2")), has_default=False)]
    assert reads_in([path]) == [Read("x", "views.py:2", has_default=False)]


def test_files_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    """Neither a text in another encoding nor one of any size stops the search."""
    (tmp_path / "latin.py").write_bytes('flags.get("ü")'.encode("latin-1"))
    (tmp_path / "large.py").write_text('flags.get("large")\n' + "#" * 2_000_000)
    assert found(tmp_path, "small.py", 'flags.get("x")') == [("x", False)]
