"""What the service knows while it runs."""

from typing import Any

from shipsilently_local import Fault
from shipsilently_local._checks import check_flags
from shipsilently_local.bodies import Event
from shipsilently_local.state import ServiceState


def state(**settings: Any) -> ServiceState:
    """A state with two flags."""
    flags = check_flags({"a": {"default": 1}, "b": {"default": 2}}, "f")
    return ServiceState(flags, "sk_local", **settings)


def test_the_summary_counts_everything() -> None:
    """Calls by endpoint, evaluations by flag, and events by flag, variation and reason."""
    known = state()
    known.count_call("batch")
    known.count_evaluations(known.flags)
    known.count_evaluations(["a"])
    known.count_events([Event("a", "1", "default", 0.0, 0)] * 2)
    known.count_events([Event("a", "2", "rollout", 0.0, 0), Event("b", "1", "default", 0.0, 0)])
    assert known.summary() == {
        "flags": ["a", "b"],
        "evaluations": {"a": 2, "b": 1},
        "events": {
            "accepted": 4,
            "byFlag": {"a": {"1": {"default": 2}, "2": {"rollout": 1}}, "b": {"1": {"default": 1}}},
        },
        "openStreams": 0,
        "requests": {"evaluate": 0, "batch": 1, "ticket": 0, "stream": 0, "analytics": 0},
    }


def test_equal_flags_are_no_change() -> None:
    """Putting flags that say the same reports no change; another order is one."""
    known = state()
    same = check_flags({"a": {"default": 1}, "b": {"default": 2}}, "f")
    turned = check_flags({"b": {"default": 2}, "a": {"default": 1}}, "f")
    assert not known.put_flags(same)
    assert known.put_flags(turned)
    assert list(known.flags) == ["b", "a"]
    typed = check_flags({"b": {"default": 2}, "a": {"default": True}}, "f")
    assert known.put_flags(typed)


def test_faults_and_counts_outlive_a_run() -> None:
    """A new run has new streams, which a fault in force keeps silent; the rest stays."""
    known = state()
    known.count_call("stream")
    fault_id = known.add_fault(Fault(endpoint="stream", silence=True, live=True))
    before = known.streams
    known.end()
    assert known.stopping.is_set()
    assert before.closed
    known.begin()
    assert not known.stopping.is_set()
    assert known.streams is not before
    assert known.streams.muted
    assert known.summary()["requests"]["stream"] == 1
    assert known.clear_faults(fault_id) == 1
    assert not known.streams.muted
    assert known.clear_faults() == 0
