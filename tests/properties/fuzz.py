"""Run the properties for as long as you like: ``python -m tests.properties.fuzz --minutes 5``.

Each property gets an equal share of the time, and fills it with rounds of examples that nobody
has chosen. A round that fails shows the smallest example that does, which is also the first one
that `make test` tries from then on, until it holds.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import pytest

#: Examples of one round; between two rounds the time is looked at.
ROUND = 100


class Rounds:
    """Calls each property again and again until its share of the time is over.

    Args:
        minutes: For all of them.
    """

    def __init__(self, minutes: float) -> None:
        self._seconds = 60 * minutes
        self._began = time.monotonic()
        self._left = 0

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out what has no examples to vary."""
        items[:] = [item for item in items if is_property(item)]
        self._left = len(items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool:
        """Go through one property's rounds, in the place of pytest's one call."""
        now = time.monotonic()
        share = max(0.0, self._seconds - (now - self._began)) / max(1, self._left)
        self._left -= 1
        capture = pyfuncitem.config.pluginmanager.getplugin("capturemanager")

        def say(line: str) -> None:
            with capture.global_and_fixture_disabled():
                print(line, flush=True)

        say(f"\n{pyfuncitem.path.stem}: {pyfuncitem.name}")
        rounds = 0
        try:
            while not rounds or time.monotonic() - now < share:
                rounds += 1
                pyfuncitem.obj()
        finally:
            say(f"    {rounds} rounds of {ROUND} examples in {time.monotonic() - now:.0f} s")
        return True


def is_property(item: pytest.Item) -> bool:
    """Whether a test varies examples: by `given`, or by running a machine."""
    return isinstance(item, pytest.Function) and (
        hasattr(item.obj, "hypothesis") or "run" in item.obj.__code__.co_names
    )


def main() -> int:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="Vary the properties' examples for a while.")
    parser.add_argument("--minutes", type=float, default=2.0)
    minutes = parser.parse_args().minutes
    folder = str(Path(__file__).parent)
    return int(
        pytest.main(
            [folder, "-q", "--no-header", "--timeout=0", "-p", "no:cacheprovider"],
            plugins=[Profile(), Rounds(minutes)],
        )
    )


class Profile:
    """Loads the settings of long runs when the ones of short runs have been loaded."""

    @pytest.hookimpl(trylast=True)
    def pytest_sessionstart(self) -> None:
        """Before any test module is imported."""
        # Not at the top: pytest rewrites the asserts of Hypothesis' own plugin first.
        from hypothesis import settings

        settings.register_profile(
            "fuzz", settings.default, max_examples=ROUND, stateful_step_count=100
        )
        settings.load_profile("fuzz")


if __name__ == "__main__":
    sys.exit(main())
