"""The tables of ``docs/performance.md``: ratios, and nothing that only one machine can say."""

from __future__ import annotations

from pathlib import Path

from .outcome import Outcome

__all__ = ["PEERS", "tables", "update_page"]

_BEGIN = "<!-- tables: written by make bench -->"
_END = "<!-- end of tables -->"

PEERS = (
    "launchdarkly-server-sdk",
    "UnleashClient",
    "growthbook",
    "flagsmith",
    "posthog",
    "statsig-python-core",
    "openfeature-sdk",
    "furagu",
    "django-waffle",
)
_FRAMEWORKS = ("Django, sync", "Django, async", "Flask", "FastAPI")


def update_page(path: Path, outcomes: dict[str, Outcome]) -> None:
    """Put the tables of these outcomes into the page."""
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    path.write_text(f"{before}{_BEGIN}\n\n{tables(outcomes)}\n{_END}{after}", encoding="utf-8")


def tables(outcomes: dict[str, Outcome]) -> str:
    """The page's tables, in Markdown."""
    ratios = {
        (name, figure.who): figure.ratio
        for name, outcome in outcomes.items()
        for figure in outcome.figures
    }

    def cell(measurement: str, who: str, *, upside_down: bool = True) -> str:
        found = ratios.get((measurement, who))
        if found is None or found <= 0:
            return "—"
        return _times(1 / found if upside_down else found)

    lines = [
        "### Reading flags",
        "",
        "| | a flag read again | first read, with its event | all of 200 flags | all of 1,000 |",
        "|---|---:|---:|---:|---:|",
    ]
    for name in ("dict", *PEERS):
        cells = [
            cell("reads", name),
            cell("first_read", name),
            cell("all_flags", f"{name}, 200"),
            cell("all_flags", f"{name}, 1000"),
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    lines += [
        "",
        "### What a request pays",
        "",
        "| added to a request, by | "
        + " | ".join(f"in {framework}" for framework in _FRAMEWORKS)
        + " |",
        "|---|" + "---:|" * len(_FRAMEWORKS),
    ]
    for label, measurement, who in (
        ("furagu, no flag read", "unread", "furagu"),
        ("furagu, ten reads", "cached_request", "furagu, ten reads"),
        (
            "launchdarkly-server-sdk, ten reads",
            "cached_request",
            "launchdarkly-server-sdk, ten reads",
        ),
        ("statsig-python-core, ten reads", "cached_request", "statsig-python-core, ten reads"),
    ):
        cells = [cell(measurement, f"{framework}, {who}") for framework in _FRAMEWORKS]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    lines += [
        "",
        "### A user who is not known yet",
        "",
        "| | blocking: processor time | async: processor time | async, 16 at once: a second |",
        "|---|---:|---:|---:|",
    ]
    for name in ("urllib3", "httpx", "httpx2", "aiohttp"):
        cells = [
            cell("new_user", name),
            cell("new_user", f"{name}, async"),
            cell("crowd", f"{name}, async"),
        ]
        lines.append(f"| {name}, the bare call | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _times(number: float) -> str:
    if number < 10:
        return f"{number:.2g} ×"
    return f"{number:,.0f} ×" if number < 100 else f"{round(number, -1):,.0f} ×"
