"""Contexts as people type them."""

from typing import Any

import pytest

from shipsilently_cli._context import MistypedError, attributes_of


@pytest.mark.parametrize(
    ("words", "attributes"),
    [
        ([], {}),
        (["plan=pro"], {"plan": "pro"}),
        (
            ["age=7", "beta=true", "name=a=b", "id="],
            {"age": 7, "beta": True, "name": "a=b", "id": ""},
        ),
        (['{"plan": "pro"}', "age=7"], {"plan": "pro", "age": 7}),
        ([' {"plan": "pro"}', "plan=team"], {"plan": "team"}),
        (["code=NaN"], {"code": "NaN"}),
    ],
)
def test_both_forms_are_attributes(words: list[str], attributes: dict[str, Any]) -> None:
    """Objects and NAME=VALUE can be mixed; the later of two of one name counts."""
    assert attributes_of(words) == attributes


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("recognisable", "is not NAME=VALUE and no JSON object"),
        ("=recognisable", "is not NAME=VALUE and no JSON object"),
        ('{"plan": recognisable}', "is not JSON at character 10"),
        ('["a=recognisable"]', "must be a JSON object"),
        ('plan=["recognisable"]', "the attribute 'plan' must be a string, a number"),
    ],
)
def test_what_is_no_context_is_refused(word: str, message: str) -> None:
    """What cannot be sent is told without being repeated."""
    with pytest.raises(MistypedError) as caught:
        attributes_of([word])
    assert message in str(caught.value)
    assert "recognisable" not in str(caught.value)
