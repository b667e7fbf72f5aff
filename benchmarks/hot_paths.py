"""How long the three hottest paths are, counted and not timed: the same on every machine.

    make hot-paths

Counted are the instructions of Python's bytecode and the calls into C that one run takes. A
test fails when one has risen by more than a tenth over what `hot_paths.json` keeps for this
minor version of Python; the command keeps the new numbers, and so says that the rise is meant.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from shipsilently_core import AnalyticsConfig, ShipSilentlyClient
from shipsilently_core.testing import ScriptedService

__all__ = ["KEPT", "Counts", "count_all", "instructions", "main", "risen"]

KEPT = Path(__file__).resolve().with_suffix(".json")

#: Percent by which a number may rise.
ALLOWED = 10

#: Of each path: what was counted, and how much of it.
Counts = dict[str, dict[str, int]]

VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
WHO = {"userId": "user-1"}


def paths() -> dict[str, Callable[[], Callable[[], object]]]:
    """Each path: a function that sets it up and gives what is counted."""
    client = ShipSilentlyClient(
        api_key="hot-paths",
        transport=ScriptedService({"new-checkout": True}),
        background=False,
        max_age=1e9,
        analytics=AnalyticsConfig(max_batch_size=100_000, max_buffer_size=100_000),
    )
    client.evaluate_all(WHO)

    def second_read() -> Callable[[], object]:
        flags = client.flags(WHO)
        flags.get("new-checkout", False)
        return lambda: flags.get("new-checkout", False)

    def first_read() -> Callable[[], object]:
        flags = client.flags(WHO).load()
        return lambda: flags.get("new-checkout", False)

    def cached_request() -> Callable[[], object]:
        return lambda: client.flags(WHO).get("new-checkout", False)

    return {
        "second read of a flag in a request": second_read,
        "first read, with its event": first_read,
        "request with a cached answer": cached_request,
    }


def count_all(longer: int = 0) -> Counts:
    """Count every path.

    Args:
        longer: Percent by which each path is made longer first; to see that this is found.
    """
    counts: Counts = {}
    for name, set_up in paths().items():
        for _ in range(20):
            # Python rewrites instructions that have been run a few times.
            assert set_up()() is True
        found = count(set_up)
        if longer:
            padding = _padding(-(-found["instructions"] * longer // 100))
            found = count(partial(_padded, set_up, padding))
        counts[name] = found
    return counts


def count(set_up: Callable[[], Callable[[], object]]) -> dict[str, int]:
    """The instructions and the calls into C of one run; each is counted in a run of its own."""
    # A collection in between may run code of its own.
    gc.disable()
    try:
        return {"instructions": instructions(set_up()), "calls into C": _calls(set_up())}
    finally:
        gc.enable()


if sys.version_info >= (3, 12):

    def instructions(run: Callable[[], object]) -> int:
        """How many instructions of Python a run takes, in this thread."""
        monitoring, tool = sys.monitoring, sys.monitoring.PROFILER_ID
        counted = 0
        ours = sys._getframe().f_code

        def instruction(code: CodeType, offset: int) -> None:
            nonlocal counted
            counted += code is not ours

        monitoring.use_tool_id(tool, "hot paths")
        try:
            monitoring.register_callback(tool, monitoring.events.INSTRUCTION, instruction)
            monitoring.set_events(tool, monitoring.events.INSTRUCTION)
            run()
            monitoring.set_events(tool, 0)
        finally:
            monitoring.free_tool_id(tool)
        return counted

else:

    def instructions(run: Callable[[], object]) -> int:
        """How many instructions of Python a run takes, in this thread."""
        counted = 0

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            nonlocal counted
            frame.f_trace_opcodes = True
            counted += event == "opcode"
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            run()
        finally:
            sys.settrace(before)
        return counted


def _calls(run: Callable[[], object]) -> int:
    counted = 0

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal counted
        # The last call of all is the one that ends this.
        counted += event == "c_call" and argument is not sys.setprofile

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(before)
    return counted


def _padding(instructions: int) -> Callable[[], object]:
    """A function that takes so many instructions, or one or two more."""
    names: dict[str, Any] = {}
    source = "def padding():\n" + "    x = 0\n" * -(-instructions // 2)
    code: CodeType = compile(source, "padding", "exec")
    exec(code, names)
    made: Callable[[], object] = names["padding"]
    return made


def _padded(
    set_up: Callable[[], Callable[[], object]], padding: Callable[[], object]
) -> Callable[[], object]:
    run = set_up()

    def both() -> object:
        padding()
        return run()

    return both


def risen(now: Counts, kept: Counts) -> list[str]:
    """What has risen by more than is allowed, a line for each."""
    lines = []
    for name, counted in now.items():
        for what, number in counted.items():
            before = kept.get(name, {}).get(what, 0)
            if number * 100 > before * (100 + ALLOWED):
                lines.append(f"{name}: {number} {what}, kept were {before}")
    return lines


def read_kept() -> dict[str, Counts]:
    """What is kept, by version."""
    if not KEPT.exists():
        return {}
    kept: dict[str, Counts] = json.loads(KEPT.read_text(encoding="utf-8"))
    return kept


def main() -> int:
    """Count, and keep or print; 1 when something has risen."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="keep these numbers from now on")
    parser.add_argument("--json", action="store_true", help="print them for a program")
    parser.add_argument("--longer", type=int, default=0, metavar="PERCENT", help="pad the paths")
    arguments = parser.parse_args()
    now = count_all(arguments.longer)
    if arguments.json:
        print(json.dumps(now))
        return 0
    kept = read_kept()
    lines = risen(now, kept.get(VERSION, {}))
    for name, counted in now.items():
        before = kept.get(VERSION, {}).get(name, {})
        for what, number in counted.items():
            print(f"{name}: {number} {what} (kept: {before.get(what, 'none')})")
    if arguments.keep:
        kept[VERSION] = now
        text = json.dumps(dict(sorted(kept.items())), indent=2)
        KEPT.write_text(text + "\n", encoding="utf-8")
        print(f"kept for Python {VERSION}")
        return 0
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main())
