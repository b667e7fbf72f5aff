"""Values that a test has set."""

from __future__ import annotations

from shipsilently_core._overrides import Overrides


def test_the_latest_layer_wins() -> None:
    """Layers cover each other flag by flag."""
    overrides = Overrides()
    overrides.push({"a": 1, "b": 1})
    overrides.push({"b": 2})
    assert overrides.values == {"a": 1, "b": 2}


def test_layers_go_in_any_order() -> None:
    """Removing a lower layer leaves the upper, and of equal layers only the very one goes."""
    overrides = Overrides()
    lower, upper, twin = {"a": 1}, {"a": 2}, {"a": 2}
    for layer in (lower, upper, twin):
        overrides.push(layer)
    overrides.remove(lower)
    assert overrides.values == {"a": 2}
    overrides.remove(twin)
    assert overrides.values == {"a": 2}
    overrides.remove(upper)
    assert overrides.values == {}
    overrides.remove(upper)
    assert overrides.values == {}


def test_readers_see_whole_states() -> None:
    """What a reader holds is not changed under it."""
    overrides = Overrides()
    before = overrides.values
    overrides.push({"a": 1})
    assert before == {}
