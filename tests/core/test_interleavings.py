"""Two at once, at the worst moment: one is held where it matters while another goes on."""

from __future__ import annotations

import asyncio
import dis
import itertools
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pytest

from shipsilently_core import EvaluationResult, Flags, ShipSilentlyClient, Source
from shipsilently_core._background import Background
from shipsilently_core._cache import SharedBodies
from shipsilently_core._knowledge import Knowledge
from shipsilently_core._process import Event, Latch, Places
from shipsilently_core._seen import Seen
from shipsilently_core._snapshot import Row, Snapshot
from shipsilently_core._wire import Reply
from shipsilently_core.stores import FileStore
from shipsilently_core.testing import ManualClock, ScriptedService, override_flags
from tests.core.delivering import Setup as Delivering
from tests.core.delivering import sheet
from tests.core.storing import ADA, EVE, Fleet
from tests.core.support import KEY, fixed, setup

#: Seconds after which a thread that is held has waited for something that never comes.
LIMIT = 10.0

needs_signal = pytest.mark.skipif(
    not hasattr(signal, "SIGUSR1"), reason="Windows has no signal that is a program's own"
)


class Held:
    """A thread that runs `work` and stops in the midst of `function`, until it is let go.

    Args:
        monkeypatch: To put itself in the function's place.
        owner: What has the function.
        name: Its name there.
        work: What to run.
        after: Stop when the function has done its work, instead of before.
    """

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        owner: Any,
        name: str,
        work: Callable[[], Any],
        *,
        after: bool = False,
    ) -> None:
        self._reached, self._go = threading.Event(), threading.Event()
        self._real, self._after = getattr(owner, name), after
        self._result: Any = None
        self._thread = threading.Thread(target=self._run, args=(work,))
        # Of a class it is called with the instance first, as any function there.
        monkeypatch.setattr(owner, name, lambda *args, **named: self._call(args, named))
        self._thread.start()
        assert self._reached.wait(LIMIT)

    def _run(self, work: Callable[[], Any]) -> None:
        self._result = work()

    def _call(self, args: Any, named: Any) -> Any:
        here = threading.current_thread() is self._thread and not self._reached.is_set()
        if here and not self._after:
            self._stop()
        result = self._real(*args, **named)
        if here and self._after:
            self._stop()
        return result

    def _stop(self) -> None:
        self._reached.set()
        assert self._go.wait(LIMIT)

    def let_go(self) -> Any:
        """Let it run to its end; what `work` gave."""
        self._go.set()
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()
        return self._result


@pytest.fixture
def restarted(tmp_path: Path) -> Iterator[ShipSilentlyClient]:
    """A process that was started during an outage, with a file that knows two users."""
    fleet = Fleet(
        FileStore(tmp_path / "flags"),
        flags=lambda context: {"who": context.get("userId", "nobody")},
    )
    before = fleet.client(background=False)
    for who in (ADA, EVE):
        before.evaluate_all(who)
    before.close()
    fleet.service.fail(connected=False)
    with_store = fleet.client(background=False)
    with_store.flags({"userId": "bob"}).load()
    yield with_store
    with_store.close()


@pytest.mark.parametrize("after", [False, True], ids=["decoding", "adopted"])
def test_two_requests_of_one_user_both_find_what_another_process_has_left(
    monkeypatch: pytest.MonkeyPatch, restarted: ShipSilentlyClient, after: bool
) -> None:
    """While one takes a user's values over, they are still served to the other."""
    cache = restarted.evaluator.cache
    # Of the users in the store this is the last that anybody asks for.
    restarted.flags(EVE).load()
    held = Held(
        monkeypatch, cache, "adopt", lambda: restarted.flags(ADA).get("who", "?"), after=after
    )
    assert restarted.flags(ADA).get("who", "?") == "ada-4711"
    assert held.let_go() == "ada-4711"


def test_what_is_known_elsewhere_takes_no_memory_twice(restarted: ShipSilentlyClient) -> None:
    """Once a user's values are in memory, the store's copy of them is let go."""
    keeper = restarted.evaluator.keeper
    assert keeper is not None
    status = restarted.status().store
    assert status is not None
    for who, left in ((ADA, status.contexts - 1), (EVE, status.contexts - 2)):
        restarted.flags(who).load()
        status_now = restarted.status().store
        assert status_now is not None
        assert status_now.contexts == left


def test_what_was_recalled_in_between_is_found_in_memory(
    monkeypatch: pytest.MonkeyPatch, restarted: ShipSilentlyClient
) -> None:
    """A request that had looked into memory before, and into the store after, still finds it."""
    restarted.flags(EVE).load()
    keeper = restarted.evaluator.keeper
    held = Held(monkeypatch, keeper, "recall", lambda: restarted.flags(ADA).get("who", "?"))
    assert restarted.flags(ADA).get("who", "?") == "ada-4711"
    assert held.let_go() == "ada-4711"


def test_threads_that_share_a_request_s_flags_see_one_evaluation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of two first reads the one that is done first is everybody's, and each flag counts once."""
    s = setup({"x": "old", "y": "old"}, background=False)
    s.client.evaluate_all(ADA)
    flags = s.client.flags(ADA)
    held = Held(monkeypatch, s.client, "fresh", lambda: flags.get("x", ""), after=True)
    s.service.set({"x": "new", "y": "new"})
    s.client.evaluate_all(ADA)
    assert [flags.get("x", ""), flags.get("y", "")] == ["new", "new"]
    assert held.let_go() == "new"
    assert [flags.get("x", ""), flags.get("y", "")] == ["new", "new"]
    assert s.client.status().buffered_events == 2


def test_what_the_service_has_counted_counts_for_all_who_share_the_flags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where one that waited shows its view before the one that asked, nothing counts again."""
    s = setup({"x": True}, background=False)
    flags = s.client.flags(ADA)
    held = Held(
        monkeypatch, s.client, "resolve", lambda: flags.evaluate_all()["x"].value, after=True
    )
    assert flags.evaluate_all()["x"].value is True
    assert held.let_go() is True
    assert flags.get("x", False) is True
    assert s.client.status().buffered_events == 0
    assert len(s.service.requests) == 1


@pytest.mark.parametrize("load", [Flags.load, lambda flags: asyncio.run(flags.aload())])
@pytest.mark.parametrize("known", [True, False])
def test_a_view_that_comes_late_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, load: Callable[[Flags], object], known: bool
) -> None:
    """What another thread has shown while this one made its own is everybody's."""
    s = setup({"x": True}, background=False)
    flags, other = s.client.flags(ADA), sheet("x")
    if known:
        s.client.evaluate_all(ADA)

    def as_another_is_done(*given: Any) -> Seen:
        flags._short = other
        return Seen(*given)

    monkeypatch.setattr("shipsilently_core.flags.Seen", as_another_is_done)
    load(flags)
    assert flags._short is other


@pytest.mark.parametrize("held_is", ["stream", "request"])
def test_a_stream_that_comes_up_makes_nothing_old_fresh(
    monkeypatch: pytest.MonkeyPatch, held_is: str
) -> None:
    """Not even in the moment from which on no age matters, whichever of the two comes amid it."""
    s = setup({"x": "old"}, background=False)
    s.client.evaluate_all(ADA)
    s.clock.advance(3_600)
    s.service.set({"x": "new"})
    cache, flags = s.client.evaluator.cache, s.client.flags(ADA)
    if held_is == "stream":
        held = Held(monkeypatch, cache, "invalidate", lambda: cache.live(True))
        assert flags.get("x", "") == "new"
        held.let_go()
    else:
        held = Held(monkeypatch, cache, "_monotonic", lambda: flags.get("x", ""))
        cache.live(True)
        assert held.let_go() == "new"


def test_a_background_that_was_ended_before_it_began_does_not_begin() -> None:
    """Whoever closes the client just then waits for no thread."""
    client = ShipSilentlyClient(api_key=KEY, transport=ScriptedService({"x": True}))
    background = Background(
        client.config,
        ManualClock(),
        fixed(),
        evaluator=client.evaluator,
        transport=client._sender,
        watches=(),
        tell=client,
    )
    background.stop(0.1)
    assert not background.start()
    assert not client.evaluator.gate.background


def test_a_request_that_begins_while_the_client_is_closed_starts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What had looked whether it is closed just before looks again when it would start."""
    client = ShipSilentlyClient(api_key=KEY, transport=ScriptedService({"x": True}))
    client._starts_itself = True
    held = Held(monkeypatch, client, "_start", lambda: client.flags(ADA).get("x", False))
    client.close()
    held.let_go()
    assert client._background is None
    assert not [t for t in threading.enumerate() if t.name.startswith("shipsilently-refresh")]


def test_a_flush_waits_for_checks_that_another_thread_has_in_hand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was read before it is delivered when it returns, and counts as waiting until then."""
    made = Delivering()
    made.analytics.enlist(sheet("a", "b"))
    held = Held(monkeypatch, Seen, "take", lambda: len(made.analytics))
    flushed: list[int] = []
    flush = threading.Thread(target=lambda: flushed.append(made.flush()))
    flush.start()
    # A request reads on meanwhile, and waits for neither.
    made.analytics.record("c", True, "default")
    assert held.let_go() == 3
    flush.join(LIMIT)
    assert flushed == [3]
    assert sorted(made.post.taken) == ["a", "b", "c"]
    assert made.analytics.idle


def test_a_test_that_ends_in_the_midst_of_a_read_raises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A live server's thread that has seen an override is served it to the end of the read."""
    s = setup({"x": False}, background=False)
    with override_flags(x=True):
        held = Held(
            monkeypatch, Knowledge, "overridden", lambda: s.client.flags(ADA).detail("x", False)
        )
    result = held.let_go()
    assert isinstance(result, EvaluationResult)
    assert (result.value, result.source) == (True, Source.OVERRIDE)


def test_an_answer_that_two_have_decoded_counts_once() -> None:
    """The first is kept, so that what is reckoned to be held is what is held."""
    bodies = SharedBodies(max_bytes=20_000)
    large = Snapshot({str(n): Row(True, "default") for n in range(30)}, complete=True)
    small = Snapshot({}, complete=True, base=large)
    for first, second in ((large, small), (small, large)):
        body = b"%d" % id(first)
        bodies.put(body, first)
        held = bodies._held
        bodies.put(body, second)
        assert bodies.get(body) is first
        assert bodies._held == held


def test_attempts_of_loops_that_were_closed_under_them_are_let_go() -> None:
    """What nobody will ever end takes no memory for longer than others take to come."""

    class Hanging(ScriptedService):
        async def asend(self, request: Any) -> Any:
            await asyncio.sleep(3_600)

    clock = ManualClock()
    client = ShipSilentlyClient(
        api_key=KEY, transport=Hanging({"x": True}), background=False, clock=clock
    )
    for number in range(20):
        loop = asyncio.new_event_loop()

        async def request(name: str) -> None:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.flags({"userId": name}).aload(), 0.001)

        loop.run_until_complete(request(f"user-{number}"))
        for task in asyncio.all_tasks(loop):
            # It is the closed loop that ends them, without a word; Python would warn of it.
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        loop.close()
        clock.advance(10)
    assert len(client.evaluator._in_flight) <= 2
    client.close()


# In the midst of itself: a handler of a signal runs in the thread that it interrupts.


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """For how long somebody was about to wait for what another does: nobody does wait."""
    noted: list[float] = []

    def wait(latch: Latch[Any], timeout: float) -> bool:
        noted.append(timeout)
        return latch.done

    monkeypatch.setattr(Latch, "wait", wait)
    return noted


@contextmanager
def interrupted(owner: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Raise a signal once in the midst of a function; what the handler is to do is appended."""
    real, handlers = getattr(owner, name), list[Any]()

    def function(*args: Any) -> Any:
        if handlers:
            handler = handlers.pop()
            signal.signal(signal.SIGUSR1, lambda *_: handler())
            signal.raise_signal(signal.SIGUSR1)
        return real(*args)

    before = signal.getsignal(signal.SIGUSR1)
    monkeypatch.setattr(owner, name, function)
    try:
        yield handlers
    finally:
        signal.signal(signal.SIGUSR1, before)


@needs_signal
@pytest.mark.parametrize("verb", ["get", "status", "flush", "close"])
def test_a_handler_of_a_signal_never_waits_for_the_thread_that_it_interrupts(
    monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    """Reading, looking, delivering and closing there go on while checks are being gathered."""
    s = setup({"a": True, "b": True}, background=False)
    s.client.evaluate_all(ADA)
    for key in ("a", "b"):
        s.client.flags(ADA).get(key, False)
    verbs: dict[str, Callable[[], object]] = {
        "get": lambda: s.client.get("a", False, ADA),
        "status": s.client.status,
        "flush": s.client.flush,
        "close": s.client.close,
    }
    with interrupted(Seen, "take", monkeypatch) as handlers:
        handlers.append(verbs[verb])
        s.client.status()
        assert not handlers
    s.client.close()
    counted = [event["flagKey"] for event in s.service.events]
    left = s.client.status().buffered_events
    assert len(counted) + left == 2 + (verb == "get")
    assert left <= (verb == "close")


@needs_signal
@pytest.mark.parametrize("what", ["Event", "Places"])
def test_a_handler_of_a_signal_may_do_what_it_interrupts(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Ringing a bell and giving a place back, in the midst of ringing it and giving one back."""
    event, places = Event(), Places(1)
    assert places.take(0)
    work = event.set if what == "Event" else places.give_back
    condition = event._changed if what == "Event" else places._freed
    with interrupted(condition, "notify", monkeypatch) as handlers:
        monkeypatch.setattr(condition, "notify_all", condition.notify)
        handlers.append(work)
        work()
        assert not handlers
    assert event.is_set() is (what == "Event")
    assert places.take(0) is (what == "Places")


def test_a_place_is_waited_for_as_long_as_it_takes_or_is_allowed() -> None:
    """Whoever gives one back wakes one who waits."""
    places, taken = Places(1), list[bool]()
    assert places.take(0)
    assert not places.take(0.01)
    thread = threading.Thread(target=lambda: taken.append(places.take(LIMIT)))
    thread.start()
    places.give_back()
    thread.join(LIMIT)
    assert taken == [True]


def test_a_handler_does_not_wait_for_the_delivery_that_it_interrupts(waits: list[float]) -> None:
    """It delivers nothing, and what was on its way arrives when it has returned."""
    made = Delivering()
    keys = made.record(3)
    accepted: list[int] = []

    def send(request: Any) -> Any:
        # As a handler would, in the thread of the delivery.
        accepted.append(made.flush(LIMIT))
        return made.post.send(request)

    assert made.analytics.flush(send, LIMIT) == 3
    assert (accepted, waits) == ([0], [])
    assert made.post.taken == keys


def test_a_handler_does_not_wait_for_the_evaluation_that_it_interrupts(waits: list[float]) -> None:
    """It sees what is known of that user, and the interrupted read what the service says."""
    seen: list[Any] = []

    class Interrupted(ScriptedService):
        def send(self, request: Any) -> Any:
            seen.append(client.flags(ADA).get("x", "default"))
            return super().send(request)

    service = Interrupted({"x": "value"})
    client = ShipSilentlyClient(api_key=KEY, transport=service, background=False, timeout=LIMIT)
    assert client.flags(ADA).get("x", "") == "value"
    assert (seen, waits) == (["default"], [])
    assert len(service.requests) == 1


def test_a_client_that_a_handler_closes_while_it_starts_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was begun in the midst of that is ended."""
    client = ShipSilentlyClient(api_key=KEY, transport=ScriptedService({"x": True}))
    start, started = Background.start, list[Background]()

    def closed_before(background: Background) -> bool:
        monkeypatch.undo()
        started.append(background)
        taken, client._background = client._background, None
        client.close()
        client._background = taken
        return start(background)

    monkeypatch.setattr(Background, "start", closed_before)
    client.start()
    assert client._background is None
    assert not client.evaluator.gate.background
    (begun,) = started
    assert all(worker.join(LIMIT) for worker in begun._workers)


def test_an_interrupted_end_of_a_delivery_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What could not be sent is there again, and the next delivery may begin."""
    made = Delivering()
    keys = made.record(3)
    made.post.answers = [Reply(503)]

    def strike() -> None:
        raise KeyboardInterrupt

    def send(request: Any) -> Any:
        monkeypatch.setattr(made.analytics, "_take_sheets", strike)
        return made.post.send(request)

    with pytest.raises(KeyboardInterrupt):
        made.analytics.flush(send, LIMIT)
    monkeypatch.undo()
    made.clock.advance(30)
    assert made.flush() == 3
    assert made.post.taken == keys


@pytest.mark.parametrize("step", ["asked", "shown"])
def test_a_limit_of_time_that_strikes_in_a_refresh_leaves_what_was_seen(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The refresh is over, and what was seen before is read as fast as before."""
    s = setup({"x": 1}, background=False)
    flags = s.client.flags(ADA)
    assert flags.get("x", 0) == 1
    seen = flags._short

    def strike(*given: Any) -> Any:
        raise KeyboardInterrupt

    if step == "asked":
        monkeypatch.setattr(s.client, "resolve", strike)
    else:
        monkeypatch.setattr("shipsilently_core.flags.Seen", strike)
    with pytest.raises(KeyboardInterrupt):
        flags.refresh()
    assert flags._due is None
    assert (flags._short, flags._kept) == (seen, None)
    assert flags.get("x", 0) == 1


def test_a_request_never_waits_for_another_that_gathers_checks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where it would gather what is listed itself."""
    made = Delivering()
    made.analytics.enlist(sheet("a"))
    held = Held(monkeypatch, Seen, "take", lambda: len(made.analytics))
    made.analytics.enlist(sheet("b"))
    made.analytics.record("c", True, "default")
    assert held.let_go() == 2
    made.flush()
    assert sorted(made.post.taken) == ["a", "b", "c"]


@pytest.mark.parametrize("line", range(14))
def test_a_sheet_that_is_taken_in_the_midst_of_being_taken_is_taken_once(line: int) -> None:
    """Before whichever line a handler of a signal comes, reads another flag and delivers."""
    made = Delivering()
    seen = sheet("a", "b")
    made.analytics.enlist(seen)
    lines = itertools.count()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is not Seen.take.__code__:
            return None
        if event == "line" and next(lines) == line:
            sys.settrace(None)
            seen.own["c"] = Row(True, "default")
            seen.counted["c"] = True
            if not seen.listed:
                made.analytics.enlist(seen)
            len(made.analytics)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        len(made.analytics)
    finally:
        sys.settrace(before)
    made.flush()
    assert sorted(made.post.taken) == sorted(seen.counted)


class Looked(dict[str, Any]):
    """Rows of which somebody else reads one in the moment in which it is looked up."""

    def __init__(self, rows: dict[str, Any], meanwhile: Callable[[], object]) -> None:
        super().__init__(rows)
        self._meanwhile: Callable[[], object] | None = meanwhile

    def __getitem__(self, key: str) -> Any:
        """Let the other one go first, once."""
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return super().__getitem__(key)


def test_a_flag_that_another_thread_gets_as_a_default_meanwhile_counts_once() -> None:
    """Two threads of one request read it for the first time, one of them with a wrong default."""
    s = setup({"x": "on"}, background=False)
    s.client.evaluate_all(ADA)
    flags = s.client.flags(ADA).load()
    before = len(s.client.evaluator.analytics)
    others: list[Any] = []
    flags._short.own = Looked(
        {**flags._short.own, **flags._short.shared}, lambda: others.append(flags.get("x", True))
    )
    assert (flags.get("x", "off"), others) == ("on", [True])
    assert len(s.client.evaluator.analytics) - before == 1
    assert flags.get("x", "off") == "on"


def taken(code: CodeType, run: Callable[[], object]) -> tuple[list[int], object]:
    """The places of the instructions that `run` takes in `code`, in order, and what it gives."""
    offsets: list[int] = []
    if sys.version_info >= (3, 12):
        monitoring, tool = sys.monitoring, sys.monitoring.PROFILER_ID
        event = monitoring.events.INSTRUCTION
        monitoring.use_tool_id(tool, "interleavings")
        try:
            monitoring.register_callback(tool, event, lambda code, offset: offsets.append(offset))
            monitoring.set_local_events(tool, code, event)
            given = run()
            monitoring.set_local_events(tool, code, 0)
        finally:
            monitoring.free_tool_id(tool)
        return offsets, given

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        if frame.f_code is code:
            frame.f_trace_opcodes = True
            if event == "opcode":
                offsets.append(frame.f_lasti)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        return offsets, run()
    finally:
        sys.settrace(before)


@pytest.mark.parametrize(
    ("verb", "loaded"), [(Flags.get, True), (Flags.get, False), (Flags.is_enabled, True)]
)
def test_no_thread_comes_between_whether_a_flag_was_counted_and_that_it_is(
    verb: Any, loaded: bool
) -> None:
    """Where it is on or off, nothing is called in between: Python lets others go on at calls."""
    s = setup({"x": True}, background=False)
    s.client.evaluate_all(ADA)
    flags = s.client.flags(ADA)
    if loaded:
        flags.load()
    steps = {each.offset: (each.opname, each.argval) for each in dis.get_instructions(verb)}
    offsets, value = taken(verb.__code__, lambda: verb(flags, "x", default=False))
    assert value is True
    taken_steps = [steps[offset] for offset in offsets]
    names = [name for name, _ in taken_steps]
    counts = names.index("STORE_SUBSCR")
    calls = [number for number in range(counts) if re.search("CALL|BACKWARD", names[number])]
    # Since the last call, what was counted is looked up, and then in it.
    assert ("LOAD_ATTR", "counted") in taken_steps[max(calls, default=0) : counts]
    assert bool(calls) is not loaded
    assert len(s.client.evaluator.analytics) == 1
