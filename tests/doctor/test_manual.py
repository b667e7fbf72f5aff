"""The runs that the manual shows are what the doctor prints."""

import re
from pathlib import Path

from shipsilently_cli.checkup import Finding, Subject, examine
from shipsilently_cli.checkup.report import lines
from shipsilently_core import Config
from shipsilently_local import LocalService

from .setups import findings

PAGE = Path(__file__).resolve().parent.parent.parent / "docs" / "doctor.md"
CHECKLIST = PAGE.with_name("production-checklist.md")


def shown(number: int) -> list[str]:
    """The report in the manual's so-manieth block of that kind, without what varies."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"```console\n\$ shipsilently doctor\n(ok .*?)\n\n", text, re.DOTALL)
    return [plain(line) for line in blocks[number].splitlines() if not line.startswith("waiting")]


def plain(line: str) -> str:
    """A line without its numbers and units of time."""
    return re.sub(r"\d+(?:\.\d+)?(?: ms| s\b)?", "N", line)


def printed(found: list[Finding]) -> list[str]:
    """The lines of a report, without what varies."""
    return [plain(line) for line in lines(found)]


def test_the_good_run_is_real(service: LocalService) -> None:
    """The manual's good run is, to the word, that of the local service."""
    config = Config(api_key=service.key, api_url=service.url)
    assert printed(list(examine(Subject(config=config)))) == shown(0)


def test_the_bad_run_is_real(service: LocalService) -> None:
    """The manual's run with a wrong key is, to the word, what such a run prints."""
    found = findings(service.url, key="sk_live_0123456789abcdef", timeout=2.0)
    assert printed(found) == shown(1)


def test_each_check_is_in_the_manual() -> None:
    """Every name that a line may begin with is explained."""
    checks = set()
    for source in Path(PAGE.parent.parent / "shipsilently_cli" / "checkup").glob("*.py"):
        text = source.read_text(encoding="utf-8")
        checks |= set(re.findall(r'\b(?:ok|warning|failure|skipped)\(\s*"(\w+)"', text))
    manual = PAGE.read_text(encoding="utf-8") + CHECKLIST.read_text(encoding="utf-8")
    assert len(checks) > 15
    assert {check for check in checks if f"`{check}`" not in manual} == set()
