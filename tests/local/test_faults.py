"""Faults: what a specification may say, and which fault applies to which call."""

import math
from typing import Any

import pytest

from shipsilently_local import Fault, FaultError
from shipsilently_local.faults import FaultTable, read_fault


@pytest.mark.parametrize(
    "data",
    [
        {"endpoint": "evaluate", "status": 503},
        {"endpoint": "*", "status": 429, "headers": {"Retry-After": "3"}, "body": {"a": 1}},
        {"endpoint": "batch", "delay": 0.5},
        {"endpoint": "batch", "delay": 0.5, "drop": True, "times": 3},
        {"endpoint": "analytics", "garbage": True, "drip": 0.1, "drip_headers": True},
        {"endpoint": "stream", "silence": True, "live": True, "times": 0},
        {"endpoint": "ticket", "drip": 0},
        {"endpoint": "ticket", "status": 402, "headers": {}, "body": None, "delay": None},
    ],
)
def test_right_faults_are_read(data: dict[str, Any]) -> None:
    """A specification that makes sense is taken; null is as if left out."""
    fault = read_fault(data)
    for name, value in data.items():
        assert value is None or getattr(fault, name) == value


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, '"endpoint" must be one of evaluate, batch, ticket, stream, analytics, *'),
        ({"endpoint": "evaluat"}, 'did you mean "evaluate"?'),
        ({"endpoint": 5}, '"endpoint" must be one of'),
        ({"endpoint": "*", "stauts": 500}, 'no field "stauts"; did you mean "status"?'),
        ({"endpoint": "*", "zzz": 1}, "known: endpoint, status"),
        ({"endpoint": "*"}, "nothing would go wrong"),
        ({"endpoint": "*", "drop": False}, "nothing would go wrong"),
        ({"endpoint": "*", "drop": 1}, '"drop" must be true or false'),
        ({"endpoint": "*", "drop": None}, '"drop" must be true or false'),
        ({"endpoint": "*", "status": 199}, '"status" must be a whole number from 200 to 599'),
        ({"endpoint": "*", "status": True}, '"status" must be a whole number'),
        ({"endpoint": "*", "status": 500.0}, '"status" must be a whole number'),
        ({"endpoint": "*", "status": 500, "times": -1}, '"times" must be a whole number'),
        ({"endpoint": "*", "status": 500, "times": 0}, '"times" must be 1 or more'),
        ({"endpoint": "*", "delay": "1"}, '"delay" must be a number of seconds'),
        ({"endpoint": "*", "delay": -1}, '"delay" must be a number of seconds'),
        ({"endpoint": "*", "delay": math.nan}, '"delay" must be a number of seconds'),
        ({"endpoint": "*", "drip": 4_000}, '"drip" must be a number of seconds from 0 to 3,600'),
        ({"endpoint": "*", "status": 500, "drop": True}, "got status and drop"),
        ({"endpoint": "*", "garbage": True, "silence": True}, "only one of"),
        ({"endpoint": "*", "drop": True, "body": "x"}, 'give "status" too'),
        ({"endpoint": "*", "delay": 1, "headers": {"a": "b"}}, 'give "status" too'),
        ({"endpoint": "*", "drop": True, "drip": 1}, '"drip" needs an answer'),
        ({"endpoint": "*", "status": 500, "drip_headers": True}, 'belongs to "drip"'),
        ({"endpoint": "batch", "drop": True, "live": True}, '"live" is for open streams'),
        ({"endpoint": "stream", "status": 500, "live": True}, '"live" is for open streams'),
        ({"endpoint": "*", "status": 500, "headers": []}, "must be an object of strings"),
        ({"endpoint": "*", "status": 500, "headers": {"a b": "c"}}, "a name that HTTP does not"),
        ({"endpoint": "*", "status": 500, "headers": {5: "c"}}, "a name that HTTP does not"),
        ({"endpoint": "*", "status": 500, "headers": {"a": "b\r\nc: d"}}, "printable ASCII"),
        ({"endpoint": "*", "status": 500, "headers": {"a": 5}}, "printable ASCII"),
        (
            {"endpoint": "*", "status": 500, "headers": {"Content-Length": "5"}},
            "set by the service itself",
        ),
    ],
)
def test_wrong_faults_are_refused_with_a_reason(data: dict[str, Any], problem: str) -> None:
    """A specification that makes no sense is refused in words that say what to change."""
    with pytest.raises(FaultError) as caught:
        read_fault(data)
    assert problem in str(caught.value)


def test_the_oldest_fault_that_fits_applies() -> None:
    """Faults of one endpoint follow each other as they were added, each for its calls."""
    table = FaultTable()
    table.add(Fault(endpoint="batch", status=500, times=2))
    table.add(Fault(endpoint="*", status=429, times=1))
    table.add(Fault(endpoint="batch", status=503))
    taken = [table.take("batch") for _ in range(5)]
    assert [fault.status for fault in taken if fault] == [500, 500, 429, 503, 503]
    assert table.take("evaluate") is None


def test_a_used_up_fault_is_forgotten() -> None:
    """A fault that has applied as often as it should is no longer listed."""
    table = FaultTable()
    fault_id = table.add(Fault(endpoint="batch", status=500, times=2))
    assert [(each, left) for each, _, left in table] == [(fault_id, 2)]
    table.take("batch")
    assert [(each, left) for each, _, left in table] == [(fault_id, 1)]
    table.take("batch")
    assert list(table) == []
    assert not table.remove(fault_id)


def test_faults_are_cleared_one_by_one_or_all() -> None:
    """Clearing one leaves the others; clearing all says how many there were."""
    table = FaultTable()
    first, second, third = (table.add(Fault(endpoint="*", drop=True)) for _ in range(3))
    assert len({first, second, third}) == 3
    assert table.remove(second)
    assert [fault_id for fault_id, _, _ in table] == [first, third]
    assert table.clear() == 2
    assert table.take("batch") is None


def test_a_silence_of_open_streams_lasts_until_it_is_cleared() -> None:
    """A fault for the open streams only touches no call, and stays in force."""
    table = FaultTable()
    assert not table.mutes_streams
    fault_id = table.add(Fault(endpoint="stream", silence=True, live=True, times=0))
    assert table.mutes_streams
    assert table.take("stream") is None
    assert table.remove(fault_id)
    assert not table.mutes_streams


def test_a_cut_of_open_streams_only_is_over_at_once() -> None:
    """Dropping the open streams and no new one leaves nothing in force."""
    table = FaultTable()
    table.add(Fault(endpoint="stream", drop=True, live=True, times=0))
    assert list(table) == []
