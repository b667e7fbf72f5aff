"""What the page on observability shows as output is what its code prints."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path

from tests.docs.blocks import Block, read_blocks

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "observability.md"


def printed_by(blocks: list[Block], folder: Path) -> dict[int, str]:
    """What each block printed, by its line."""
    result = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "tests" / "docs" / "page.py", PAGE.name],
        input=json.dumps([asdict(block) for block in blocks]),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=40,
        check=True,
    )
    parts = re.split(r"^ran (\d+)\n", result.stdout, flags=re.MULTILINE)
    return {int(line): text for text, line in zip(parts[::2], parts[1::2], strict=False)}


def test_the_output_shown_is_the_output(tmp_path: Path) -> None:
    """Each block that prints is followed by exactly that, and there are five of them."""
    blocks = read_blocks(PAGE.read_text(encoding="utf-8"))
    python = [block for block in blocks if block.language == "python"]
    printed = {line: text for line, text in printed_by(python, tmp_path).items() if text}
    shown = {
        block.line: after.source
        for block, after in pairwise(blocks)
        if block.line in printed and after.language == "text"
    }
    assert printed == shown
    assert len(printed) == 5


def test_the_metrics_shown_are_the_metrics_there_are() -> None:
    """The names and labels of the page's scrape are those of a scrape."""
    from prometheus_client import CollectorRegistry, generate_latest

    from shipsilently_core.contrib.prometheus import ClientCollector
    from tests.core.support import setup

    made = setup({"a": 1})
    made.client.evaluate_all()
    registry = CollectorRegistry()
    registry.register(ClientCollector(made.client))
    names = [
        line.rpartition(" ")[0]
        for line in generate_latest(registry).decode().splitlines()
        if not line.startswith("#")
    ]
    page = PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"```text\n(shipsilently_attempts_total.*?)```", page, re.DOTALL)
    assert [line.rpartition(" ")[0] for line in shown.splitlines()] == names
