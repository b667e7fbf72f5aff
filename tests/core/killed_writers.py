"""Kills processes with SIGKILL while they write a file store, and reads after each.

Prints what happened as JSON. Run by test_stores.py in a process of its own, since it forks.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from shipsilently_core._saved import Collection, Recalled, Seal
from shipsilently_core._snapshot import Row, Snapshot
from shipsilently_core.stores import FileStore

SEAL = Seal("sk_live_0123456789", "http://flags.invalid")
NAME = SEAL.fingerprint


def sealed(version: int) -> bytes:
    """A snapshot in which every flag of every context holds the version."""
    collection = Collection(float(version), "baseline", 1 << 30)
    for context in range(20):
        rows = {f"flag-{n}": Row(version, f"reason-{context}") for n in range(100)}
        collection.add(f"context-{context}", float(version), Snapshot(rows, complete=True))
    return SEAL.close(NAME, collection.saved())


def read(store: FileStore) -> int:
    """The one version that all of the file holds; raises where it is not whole."""
    data = store.load(NAME)
    assert data is not None
    recalled = Recalled(SEAL.open_snapshot(NAME, data))
    versions = set()
    assert len(recalled.contexts) == 20
    for name in list(recalled.contexts):
        found = recalled.find(name)
        assert found is not None
        assert len(found[1].rows) == 100
        versions |= {row.value for row in found[1].rows.values()}
    assert len(versions) == 1
    return int(versions.pop())


def main(folder: Path, kills: int) -> None:
    """Kill so many."""
    store = FileStore(folder / "flags.snapshot")
    versions = [sealed(version) for version in range(8)]
    store.save(NAME, versions[0])
    rng = random.Random(4711)
    seen: set[int] = set()
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            try:
                turn = rng.randrange(8)
                while True:
                    turn += 1
                    store.save(NAME, versions[turn % 8])
            finally:
                os._exit(1)
        rng.random()
        time.sleep(rng.uniform(0.0, 0.006))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        seen.add(read(store))
    left = [path for path in folder.iterdir() if path.name.endswith(".unfinished")]
    json.dump({"versions": len(seen), "interrupted": len(left)}, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
