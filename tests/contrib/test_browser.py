"""The keys and patterns of flags that a browser may see."""

import pytest

from shipsilently_core.contrib.browser import is_pattern, may_see, named

KNOWN = ["public-b", "secret", "public-a", "page-1", "odd[1]"]


@pytest.mark.parametrize(
    ("key", "patterns", "seen"),
    [
        ("public-a", ["public-*"], True),
        ("public-a", ["secret", "public-a"], True),
        ("Public-a", ["public-*"], False),
        ("not-public-a", ["public-*"], False),
        ("page-1", ["page-?"], True),
        ("page-10", ["page-?"], False),
        ("odd[1]", ["odd[1]"], True),
        ("secret", [], False),
    ],
)
def test_a_key_is_seen_where_it_is_named(key: str, patterns: list[str], seen: bool) -> None:
    """By itself or by a pattern, as a whole and with its capitals."""
    assert may_see(key, patterns) is seen


def test_patterns_are_known_by_their_signs() -> None:
    """Keys of letters, digits, dots, dashes and slashes are none."""
    assert not is_pattern("team/page-1.b_c")
    assert all(map(is_pattern, ["a*", "a?", "a[bc]"]))


def test_what_is_named_keeps_its_order() -> None:
    """Keys stay where they stand, those of a pattern come sorted, and none comes twice."""
    assert named(["public-b", "public-*", "odd[1]"], lambda: KNOWN) == [
        "public-b",
        "public-a",
        "odd[1]",
    ]


def test_without_a_pattern_nobody_is_asked() -> None:
    """Plain keys are taken as they are: no flag has to be evaluated to know them."""
    assert named(["x", "y"], lambda: pytest.fail("asked")) == ["x", "y"]
