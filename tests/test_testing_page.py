"""What the manual shows of the pytest plugin, run by pytest."""

from pathlib import Path

import pytest

from tests.docs.blocks import read_blocks

pytest_plugins = ["pytester"]

PAGE = Path(__file__).resolve().parent.parent / "docs" / "testing.md"
INI = """
[pytest]
asyncio_default_fixture_loop_scope = function
strict_config = true
strict_markers = true
shipsilently_offline = true
"""


def test_the_tests_on_the_page_pass(pytester: pytest.Pytester) -> None:
    """All test modules of the page pass, offline, with its app."""
    for block in read_blocks(PAGE.read_text(encoding="utf-8")):
        if block.title.endswith(".py"):
            (pytester.path / block.title).write_text(block.source, encoding="utf-8")
    pytester.makeini(INI)
    result = pytester.runpytest_inprocess("-v", "-p", "no:django", "-W", "error")
    result.assert_outcomes(passed=6)
    result.stdout.fnmatch_lines("*test_any_checkout[[]new-checkout=on,banner=blue[]] PASSED*")
