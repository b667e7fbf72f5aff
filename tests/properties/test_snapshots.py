"""What was saved, against what was sealed; a fleet that shares it, against a count of versions."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from shipsilently_core import Reason, ShipSilentlyClient
from shipsilently_core._saved import Recalled, Seal, Unreadable, snapshot_of
from tests.core.storing import BrokenStore, Fleet
from tests.properties.support import almost, corpus, run

SEAL = Seal("sk_corpus_0123456789", "https://flags.example")
FILES = corpus("snapshot")
GOOD = {name: content for name, content in FILES.items() if name.startswith("good-")}


def everything(data: bytes) -> dict[str, Any]:
    """All that a saved snapshot holds."""
    saved = SEAL.open_snapshot(SEAL.fingerprint, data)
    recalled = Recalled(saved)
    found = {}
    for name in list(recalled.contexts):
        kept = recalled.find(name)
        assert kept is not None
        found[name] = (kept[0], {key: row.value for key, row in kept[1].rows.items()})
    return found


@pytest.mark.parametrize("name", FILES)
def test_the_corpus_opens_or_is_refused_as_its_names_say(name: str) -> None:
    """Each good file opens with all that is in it; each bad one is refused, and nothing else."""
    if name in GOOD:
        found = everything(FILES[name])
        users = {"good-nobody": 0, "good-three-users": 3, "good-deflated": 5}
        assert len(found) == users[name]
        for _, flags in found.values():
            assert flags["flag-0"] is True
            assert flags["flag-3"] == {"n": [1]}
    else:
        with pytest.raises(Unreadable):
            SEAL.open_snapshot(SEAL.fingerprint, FILES[name])


@given(almost("snapshot"))
def test_what_is_almost_a_snapshot_is_none(data: bytes) -> None:
    """Only the very bytes that were sealed open."""
    if data in GOOD.values():
        everything(data)
    else:
        with pytest.raises(Unreadable):
            SEAL.open_snapshot(SEAL.fingerprint, data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_values)
def test_whatever_is_sealed_is_a_snapshot_or_refused(content: Any) -> None:
    """Contents that only another version could have written never raise anything else."""
    plain = b"\x00" + json.dumps(content).encode()
    data = b"SHSI\x01" + SEAL._lock(SEAL.fingerprint, plain) + plain
    try:
        saved = SEAL.open_snapshot(SEAL.fingerprint, data)
    except Unreadable:
        return
    assert all(0 <= place < len(saved.bodies) for _, place in saved.contexts.values())
    for body in saved.bodies:
        try:
            snapshot_of(body)
        except Unreadable:
            continue


class FleetMachine(RuleBasedStateMachine):
    """Processes that share a store, while flags change and everything fails now and then.

    The model is a number: how often the flags have changed. Each value tells its version and
    whose it is.
    """

    processes = Bundle("processes")

    @initialize()
    def begin(self) -> None:
        self.version = 1
        self.fleet = Fleet(
            flags=lambda context: {"a": f"{context['userId']} {self.version}"}, max_age=None
        )
        self.fleet.store = self.store = BrokenStore(self.fleet.clock.time)
        #: For each process and user the latest version that was seen there.
        self.seen: dict[tuple[int, str], int] = {}
        #: For each process the version at the service's latest word to it.
        self.heard: dict[int, int] = {}

    @rule(target=processes)
    def start(self) -> ShipSilentlyClient:
        client = self.fleet.client()
        # As if its stream were up: from now on the service tells it of every change.
        client.evaluator.cache.live(True)
        self.tell(client)
        return client

    @rule(client=processes, works=st.booleans())
    def change_and_tell(self, client: ShipSilentlyClient, works: bool) -> None:
        """The flags change, and one process hears of it at once."""
        self.version += 1
        self.fleet.clock.advance(0.001)
        self.tell(client)
        if works:
            self.work(client)

    @rule(client=processes)
    def tell(self, client: ShipSilentlyClient) -> None:
        client.evaluator.cache.invalidate()
        keeper = client.evaluator.keeper
        assert keeper is not None
        keeper.heard()
        self.heard[id(client)] = self.version

    @rule(client=processes)
    def work(self, client: ShipSilentlyClient) -> None:
        """What the store's own thread does, where there is one."""
        keeper = client.evaluator.keeper
        assert keeper is not None
        keeper.turn()

    @rule(client=processes, user=st.sampled_from(["u1", "u2"]))
    def read(self, client: ShipSilentlyClient, user: str) -> None:
        result = client.flags({"userId": user}).detail("a", "nobody 0")
        whose, version = result.value.split()
        if result.source == "default":
            assert not any(process == id(client) and who == user for process, who in self.seen)
            return
        # Of the baseline, everybody may be told.
        assert whose == (user if result.source != "baseline" else "system")
        if result.reason != Reason.ERROR_FALLBACK:
            assert int(version) >= self.heard[id(client)]
        key = (id(client), whose)
        assert int(version) >= self.seen.get(key, 0)
        self.seen[key] = int(version)

    @rule(status=st.sampled_from([None, None, 500]))
    def let_the_service_fail_or_recover(self, status: int | None) -> None:
        if status is None:
            self.fleet.service.recover()
        else:
            self.fleet.service.fail(status)

    @rule(error=st.sampled_from([None, None, OSError()]))
    def let_the_store_fail_or_recover(self, error: Exception | None) -> None:
        self.store.error = error

    @rule()
    def empty_the_store(self) -> None:
        self.store._contexts.clear()
        self.store._snapshots.clear()
        self.store._leases.clear()

    @rule(seconds=st.sampled_from([0.001, 1.0, 60.0, 3_600.0]))
    def wait(self, seconds: float) -> None:
        self.fleet.clock.advance(seconds)

    @invariant()
    def nothing_in_the_store_is_from_the_future(self) -> None:
        now = self.fleet.clock.time()
        assert all(stamp <= now for stamp, _ in self.store._contexts.values())


def test_no_process_of_a_fleet_sees_what_is_older_than_it_may() -> None:
    """After the service's word nothing older is fresh; nothing regresses, nothing crosses."""
    run(FleetMachine)
