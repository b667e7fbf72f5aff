"""The manual's page about Django says what is so."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from shipsilently_django import options

from tests.docs.blocks import read_blocks

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "django.md"


def settings_shown() -> list[Any]:
    """Every dictionary `SHIPSILENTLY` of the page that holds nothing but constants."""
    found = []
    for block in read_blocks(PAGE.read_text(encoding="utf-8")):
        if block.language != "python":
            continue
        for node in ast.walk(ast.parse(block.source)):
            match node:
                case ast.Assign(targets=[ast.Name(id="SHIPSILENTLY")], value=value):
                    try:
                        found.append(ast.literal_eval(value))
                    except ValueError:
                        continue
    return found


def test_the_settings_that_are_shown_are_right() -> None:
    """No example of settings would be complained about."""
    shown = settings_shown()
    assert len(shown) >= 2
    for given in shown:
        assert not options.read_options({"API_KEY": "sk_test", **given}).problems


def test_every_setting_is_in_the_table() -> None:
    """The table lists Django's own settings, all of them and no others."""
    text = PAGE.read_text(encoding="utf-8")
    table = text[text.index("| setting |") : text.index("A process that serves reads")]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(options._READERS)


@pytest.mark.parametrize(
    "code", [*(f"E00{n}" for n in range(1, 6)), *(f"W00{n}" for n in range(1, 5)), "W014"]
)
def test_every_check_is_in_the_table(code: str) -> None:
    """The table lists what `manage.py check` can say."""
    assert f"{code}`" in PAGE.read_text(encoding="utf-8")
