"""Noticing that a file was saved, in every way it is done."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from shipsilently_local import watcher
from shipsilently_local.watcher import Watcher, watched_directories

LIMIT = 5.0


class Reader:
    """Reads a file whenever it is told to look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._looked = threading.Condition()
        self._content = self._read()

    def _read(self) -> str | None:
        try:
            return self._path.read_text()
        except OSError:
            return None

    def look(self) -> None:
        """Read the file again."""
        with self._looked:
            self._content = self._read()
            self._looked.notify_all()

    def sees(self, content: str | None) -> bool:
        """Whether ``content`` is read within the limit."""
        with self._looked:
            return self._looked.wait_for(lambda: self._content == content, LIMIT)


@contextmanager
def watching(path: Path) -> Iterator[Reader]:
    """A watcher of ``path`` that runs."""
    reader = Reader(path)
    running = Watcher(path, reader.look)
    running.start()
    try:
        yield reader
    finally:
        running.stop()
    assert not [each for each in threading.enumerate() if each.name.endswith("-watcher")]


@pytest.fixture(autouse=True)
def _only_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a look come from a notice of the system, where the limit is shorter than the timer."""
    monkeypatch.setattr(watcher, "LOOK_AGAIN", 200)


def test_writing_in_place_is_seen(tmp_path: Path) -> None:
    """A file that is written over is read again."""
    path = tmp_path / "flags.toml"
    path.write_text("1")
    with watching(path) as reader:
        for content in "234":
            path.write_text(content)
            assert reader.sees(content)


def test_saving_by_rename_is_seen(tmp_path: Path) -> None:
    """An editor that writes a new file and renames it over the old one is followed, twice."""
    path = tmp_path / "flags.toml"
    path.write_text("1")
    with watching(path) as reader:
        for content in "23":
            (tmp_path / "new").write_text(content)
            os.replace(tmp_path / "new", path)
            assert reader.sees(content)


def test_deleting_and_making_anew_is_seen(tmp_path: Path) -> None:
    """A file that vanishes and comes back is followed."""
    path = tmp_path / "flags.toml"
    path.write_text("1")
    with watching(path) as reader:
        path.unlink()
        assert reader.sees(None)
        path.write_text("2")
        assert reader.sees("2")


def test_swapping_a_link_is_seen(tmp_path: Path) -> None:
    """A deployment that points a linked directory elsewhere is followed, and its new file too."""
    for name in "12":
        (tmp_path / name).mkdir()
        (tmp_path / name / "flags.toml").write_text(name)
    current = tmp_path / "current"
    current.symlink_to("1")
    site = tmp_path / "site"
    site.mkdir()
    path = site / "flags.toml"
    path.symlink_to("../current/flags.toml")
    with watching(path) as reader:
        (tmp_path / "next").symlink_to("2")
        os.replace(tmp_path / "next", current)
        assert reader.sees("2")
        (tmp_path / "2" / "flags.toml").write_text("3")
        assert reader.sees("3")


def test_a_directory_that_goes_and_comes_is_followed(tmp_path: Path) -> None:
    """A checkout that is deleted and made again is followed."""
    folder = tmp_path / "site"
    path = folder / "flags.toml"
    folder.mkdir()
    path.write_text("1")
    with watching(path) as reader:
        shutil.rmtree(folder)
        assert reader.sees(None)
        folder.mkdir()
        path.write_text("2")
        assert reader.sees("2")


@pytest.mark.parametrize("error", [FileNotFoundError("gone"), RuntimeError("no watches left")])
def test_without_notices_the_file_is_looked_at_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Where the system gives no notices, looking now and then takes their place."""

    def refuse(*paths: object, **settings: object) -> Iterator[None]:
        raise error
        yield

    monkeypatch.setattr(watcher, "watch", refuse)
    path = tmp_path / "flags.toml"
    path.write_text("1")
    with watching(path) as reader:
        path.write_text("2")
        assert reader.sees("2")


def test_every_directory_that_matters_is_watched(tmp_path: Path) -> None:
    """The file's directory and that of each link on the way are watched."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "flags.toml").touch()
    (tmp_path / "link").symlink_to(tmp_path / "a" / "b")
    (tmp_path / "c").mkdir()
    path = tmp_path / "c" / "flags.toml"
    path.symlink_to("../link/flags.toml")
    assert {tmp_path / "c", tmp_path, tmp_path / "a" / "b"} <= watched_directories(path)


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    """Two links that point at each other are watched and do not hang the search."""
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert tmp_path in watched_directories(tmp_path / "a")


def test_of_a_missing_directory_the_nearest_is_watched(tmp_path: Path) -> None:
    """While a directory does not exist, the one above it is watched."""
    assert watched_directories(tmp_path / "x" / "y" / "flags.toml") == {tmp_path}


def test_a_link_that_goes_while_it_is_followed_is_survived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the way to the file changes while it is looked at, it is looked at once more."""
    path = tmp_path / "flags.toml"
    path.write_text("1")
    failed: list[Path] = []

    def directories(path: Path) -> set[Path]:
        if not failed:
            failed.append(path)
            raise FileNotFoundError(path)
        return watched_directories(path)

    monkeypatch.setattr(watcher, "watched_directories", directories)
    with watching(path) as reader:
        path.write_text("2")
        assert reader.sees("2")
    assert failed == [path]
