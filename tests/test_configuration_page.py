"""The page of settings is complete and right."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec import NODEFAULT
from msgspec.structs import fields

from shipsilently_core import AnalyticsConfig, Config, RetryConfig

PAGE = (Path(__file__).resolve().parent.parent / "docs" / "configuration.md").read_text("utf-8")
ROWS = {match[1]: match[0] for match in re.finditer(r"^\| `([a-z_]+)` \|.*$", PAGE, re.MULTILINE)}
SETTINGS = [
    (kind, item) for kind in (Config, RetryConfig, AnalyticsConfig) for item in fields(kind)
]


def written(default: Any) -> str:
    """A default as the page writes it."""
    return f"`{default!r}`".replace("'", '"') if default != "" else '`""`'


@pytest.mark.parametrize(("kind", "item"), SETTINGS, ids=lambda value: getattr(value, "name", ""))
def test_the_page_lists_every_setting_with_its_default(kind: type[Any], item: Any) -> None:
    """Each setting has a row, and where its default is a plain value the row shows that value."""
    row = ROWS[item.name]
    if item.name in ("api_key", "api_url"):
        assert "from the environment" in row
    elif item.name in ("retry", "analytics"):
        assert "see below" in row
    else:
        default = item.default if item.default is not NODEFAULT else item.default_factory()
        assert f"| {written(default)} |" in row


def test_the_page_lists_nothing_else() -> None:
    """No row is left of a setting that does not exist any more."""
    assert set(ROWS) == {item.name for _, item in SETTINGS}
