"""Every code block of the manual and the readme does what it says."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml

from shipsilently_local import LocalService, LocalServiceError
from tests.docs.blocks import Block, PageError, commands, make_targets, read_blocks

ROOT = Path(__file__).resolve().parent.parent
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
SCRIPT = Path(sys.executable).parent / "shipsilently"
RUN = {"python", "html+django", "html+jinja"}
PARSED = {"toml", "json", "yaml"}
COMMANDS = {"console", "bash"}
SHOWN = {"text", "html", "http", "nginx", "ini"}
# Programs of others that the manual may tell people to run.
FOREIGN_PROGRAMS = {
    "cd",
    "celery",
    "curl",
    "daphne",
    "django-admin",
    "export",
    "fastapi",
    "flask",
    "git",
    "granian",
    "gunicorn",
    "hypercorn",
    "npm",
    "pip",
    "python",
    "uv",
    "uvicorn",
    "uwsgi",
}
# What the service knows while a page runs, beside what the page's own flags files say.
FLAGS: dict[str, Any] = {
    "checkout-v2": {"enabled": True, "default": True},
    "banner": {"enabled": True, "default": "Good morning"},
}


def merged(flags: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """The flags with those of one more flags file, which win."""
    return {**flags, **document.get("flags", {})}


def parse(block: Block) -> Any:
    """The document that a TOML, JSON or YAML block holds."""
    match block.language:
        case "toml":
            return tomllib.loads(block.source)
        case "json":
            return json.loads(block.source)
        case _:
            return yaml.safe_load(block.source)


def flags_of(blocks: list[Block]) -> dict[str, Any]:
    """The flags that a page's blocks titled `flags.toml`, `.yaml` or `.json` define."""
    flags = FLAGS
    for block in blocks:
        if block.language in PARSED and block.title.startswith("flags.") and not block.not_run:
            flags = merged(flags, parse(block))
    return flags


def run_page(page: str, blocks: list[Block], folder: Path, url: str) -> None:
    """Run a page's blocks in a process of its own; fails with the page's line."""
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.django_settings",
        "PYTHONPATH": str(ROOT),
        "SHIPSILENTLY_API_KEY": "sk_local",
        "SHIPSILENTLY_API_URL": url,
    }
    result = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "tests" / "docs" / "page.py", page],
        input=json.dumps([asdict(block) for block in blocks]),
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    if result.returncode:
        pytest.fail(f"{page} fails:\n{result.stdout}{result.stderr}", pytrace=False)


def check_command(words: list[str]) -> None:
    """Raises `PageError` for a command that this project does not have, or not so."""
    while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):
        words = words[1:]
    program, *arguments = words or ["export"]
    program = program.removeprefix(".venv/bin/")
    if program == "make":
        unknown = {word for word in arguments if "=" not in word} - make_targets(ROOT / "Makefile")
        if unknown:
            raise PageError(f"make has no target {', '.join(sorted(unknown))}")
    elif program == "shipsilently":
        check_own_command(arguments)
    elif program == ".ci/run":
        pass
    elif program not in FOREIGN_PROGRAMS:
        raise PageError(f"unknown command {program}")
    if program in {"pip", "uv"}:
        check_extras(arguments)


def check_own_command(arguments: list[str]) -> None:
    """Raises `PageError` for a subcommand or an option that `shipsilently` does not have."""
    subcommand = [word for word in arguments[:1] if not word.startswith("-")]
    shown = subprocess.run(
        [SCRIPT, *subcommand, "--help"], capture_output=True, text=True, timeout=30, check=False
    )
    if shown.returncode:
        raise PageError(f"shipsilently {' '.join(arguments)}: {shown.stderr.strip()}")
    options = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", shown.stdout))
    unknown = {word.partition("=")[0] for word in arguments if word.startswith("-")} - options
    if unknown:
        raise PageError(f"shipsilently {' '.join(subcommand)} has no {', '.join(sorted(unknown))}")


def check_extras(arguments: list[str]) -> None:
    """Raises `PageError` for an extra that the distribution does not have."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        known = set(tomllib.load(file)["project"]["optional-dependencies"])
    for word in arguments:
        requirement = re.fullmatch(r"(?:\.|shipsilently)\[(.*)\].*", word)
        if requirement and (unknown := set(requirement[1].split(",")) - known):
            raise PageError(f"there is no extra {', '.join(sorted(unknown))}")


def check_page(name: str, text: str, folder: Path) -> str:
    """Run or check each block of a page; gives a line that says how many. Fails with a reason."""
    blocks = read_blocks(text)
    live = [block for block in blocks if not block.not_run]
    for block in live:
        try:
            if block.language in PARSED:
                parse(block)
            elif block.language in COMMANDS:
                for words in commands(block.source):
                    check_command(words)
            elif block.language not in RUN | SHOWN:
                raise PageError(f"unknown kind of block {block.language!r}")
        except (ValueError, PageError, yaml.YAMLError) as error:
            pytest.fail(f"{name}, line {block.line}: {error}", pytrace=False)
    run = [block for block in live if block.language in RUN]
    try:
        service = LocalService(flags_of(blocks))
    except LocalServiceError as error:
        pytest.fail(f"{name}: the page's flags are wrong: {error}", pytrace=False)
    if run:
        with service:
            run_page(name, run, folder, service.url)
    checked = sum(block.language in PARSED | COMMANDS for block in live)
    return f"{name}: {len(run)} run, {checked} checked, {len(blocks) - len(live)} not run"


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_the_page_does_what_it_says(
    page: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each block of the page runs, parses or names commands that exist."""
    name = page.relative_to(ROOT).as_posix()
    outcome = check_page(name, page.read_text(encoding="utf-8"), tmp_path)
    with capsys.disabled():
        print(f"\n{outcome}", end=" ")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\n1\n", "never ends"),
        ("<!-- not run: -->\n```python\n1\n```\n", "needs a reason"),
    ],
)
def test_unreadable_pages_are_refused(text: str, message: str) -> None:
    """A block without an end and an exception without a reason are errors of the page."""
    with pytest.raises(PageError, match=message):
        read_blocks(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```\nx\n```", "unknown kind"),
        ("```toml\nx = \n```", "line 1"),
        ("\n```json\n{\n```", "line 2"),
        ("```yaml\n[\n```", "line 1"),
        ("```console\nmake test\n```", "shows no command"),
        ("```console\n$ make coffee\n```", "no target coffee"),
        ("```bash\n$ frobnicate\n```", "unknown command frobnicate"),
        ("```console\n$ pip install 'shipsilently[tornado]'\n```", "no extra tornado"),
        ('```toml title="flags.toml"\n[flags.x]\nenable = true\n```', "flags are wrong"),
    ],
)
def test_wrong_blocks_are_found(text: str, message: str, tmp_path: Path) -> None:
    """A block that does not parse, has no known kind or names no known command fails its page."""
    with pytest.raises(pytest.fail.Exception, match=message):
        check_page("page.md", text, tmp_path)


def test_failing_python_is_found_with_its_line(tmp_path: Path) -> None:
    """A Python block that raises fails its page and shows the page's own line."""
    blocks = read_blocks(
        "# Page\n\n```python\nvalue = 1\n```\n\n```python\nassert value == 2\n```\n"
    )
    with pytest.raises(pytest.fail.Exception, match=r'(?s)"page.md", line 8.*assert value == 2'):
        run_page("page.md", blocks, tmp_path, "http://127.0.0.1:9")


def test_blocks_of_a_page_share_names_and_may_await(tmp_path: Path) -> None:
    """Later blocks see what earlier ones defined, and `await` works outside of functions."""
    text = (
        "```python\nimport asyncio\nvalue = await asyncio.sleep(0, 7)\n```\n"
        "- in a list\n\n  ```python\n  assert value == 7\n  ```\n"
    )
    run_page("page.md", read_blocks(text), tmp_path, "http://127.0.0.1:9")


def test_blocks_keep_their_title_and_reason() -> None:
    """A block's title and the reason why it is not run are read from above and beside it."""
    text = '<!-- not run: shows a mistake -->\n\n```toml title="flags.toml"\nx\n```\n'
    (block,) = read_blocks(text)
    assert block == Block(3, "toml", "flags.toml", "x\n", "shows a mistake")


def test_flags_of_a_page_join_the_usual_ones() -> None:
    """A flags file shown on a page is what its Python talks to, beside the usual flags."""
    text = '```toml title="flags.toml"\n[flags.new]\nenabled = true\ndefault = 3\n```\n'
    flags = flags_of(read_blocks(text))
    assert flags == {**FLAGS, "new": {"enabled": True, "default": 3}}


def test_commands_are_split_into_words() -> None:
    """Continued lines are joined, printed lines and comments are left out, pipes are split."""
    source = "$ pip install \\\n    '.[cli]'  # once\nSuccessfully installed\n$ make test | tail\n"
    assert commands(source) == [["pip", "install", ".[cli]"], ["make", "test"], ["tail"]]
