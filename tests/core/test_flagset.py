"""`FlagSet`: typed flags."""

import asyncio
import threading
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest

from shipsilently_core import (
    ConfigurationError,
    EvaluationResult,
    Failure,
    FlagKey,
    FlagSet,
    signals,
)
from shipsilently_core.testing import override_flags
from tests.core.support import Heard, Setup, listening, setup


class Checkout(FlagSet):
    """The flags of a checkout."""

    family: ClassVar[str] = "not a flag"
    checkout_v2: bool = False
    banner: Literal["blue", "green"] = "blue"
    limit: int = 3
    rate: float = 0.5
    layout: dict[str, int] = {"columns": 1}  # noqa: RUF012  # a default, copied for each set
    title: Annotated[str, "shown on top", FlagKey("texts/title")] = "Hello"


SERVED = {
    "checkout-v2": True,
    "banner": "green",
    "limit": 5,
    "rate": 1,
    "layout": {"columns": 2},
    "texts/title": "Bonjour",
}
AS_SERVED = Checkout(
    checkout_v2=True, banner="green", limit=5, rate=1.0, layout={"columns": 2}, title="Bonjour"
)


def read(s: Setup) -> Checkout:
    """The set of a new request."""
    return s.client.flags().as_(Checkout)


def test_a_set_has_what_the_service_says() -> None:
    """All fields are read from the request's one evaluation."""
    s = setup(SERVED)
    flags = s.client.flags()
    assert flags.as_(Checkout) == Checkout.of(flags) == AS_SERVED
    assert len(s.service.requests) == 1


async def test_a_set_can_be_read_in_a_coroutine() -> None:
    """After an awaited load a set needs no `await`."""
    flags = await setup(SERVED).client.flags().aload()
    assert flags.as_(Checkout) == AS_SERVED


@pytest.mark.parametrize(
    ("served", "field", "expected"),
    [
        ({"checkout-v2": 1}, "checkout_v2", False),
        ({"checkout-v2": "true"}, "checkout_v2", False),
        ({"checkout-v2": None}, "checkout_v2", False),
        ({"banner": "red"}, "banner", "blue"),
        ({"banner": True}, "banner", "blue"),
        ({"limit": True}, "limit", 3),
        ({"limit": 3.5}, "limit", 3),
        ({"limit": "5"}, "limit", 3),
        ({"rate": True}, "rate", 0.5),
        ({"rate": "1.5"}, "rate", 0.5),
        ({"layout": {"columns": "two"}}, "layout", {"columns": 1}),
        ({"layout": []}, "layout", {"columns": 1}),
        ({"texts/title": {}}, "title", "Hello"),
    ],
)
def test_a_value_of_another_type_gives_the_declared_default(
    lines: list[Any], served: dict[str, Any], field: str, expected: Any
) -> None:
    """A value that the field does not take is not served: default, signal and one warning."""
    s = setup(SERVED | served)
    with listening(s.client) as heard:
        for _ in range(2):
            assert vars(read(s)) == vars(AS_SERVED) | {field: expected}
    (key,) = served
    assert heard == [Heard(Failure.TYPE_MISMATCH, None, key)] * 2
    (line,) = [line.getMessage() for line in lines]
    assert line.startswith(f"flag {key!r} holds a ")
    assert "default is served" in line


def test_a_value_is_never_told() -> None:
    """The word of a mismatch names the flag, the field and the type, and not the value."""
    told: list[Any] = []
    s = setup({"limit": "4111-1111"}, on_error=told.append)
    assert read(s).limit == 3
    (report,) = [report for report in told if report.failure is Failure.TYPE_MISMATCH]
    assert report.message == "flag 'limit' holds a str that Checkout.limit does not take"


def test_whole_numbers_are_whole_however_they_are_written() -> None:
    """An int takes 3.0 and a float takes 3, since both are one number in JSON."""
    checkout = read(setup({"limit": 7.0, "rate": 2}))
    assert (checkout.limit, type(checkout.limit)) == (7, int)
    assert (checkout.rate, type(checkout.rate)) == (2.0, float)


def test_a_flag_may_be_called_as_its_field_is() -> None:
    """A field is the flag of its very name where there is one, else the one with hyphens."""
    assert read(setup({"checkout_v2": True, "checkout-v2": False})).checkout_v2 is True
    assert read(setup({"checkout_v2": False, "checkout-v2": True})).checkout_v2 is False
    assert read(setup({"checkout-v2": True})).checkout_v2 is True


@pytest.mark.parametrize("key", ["checkout_v2", "checkout-v2"])
def test_what_a_test_has_set_goes_first(key: str) -> None:
    """An override under either name wins over the service's flag under the other."""
    s = setup({"checkout_v2": False, "checkout-v2": False})
    with override_flags({key: True}):
        assert read(s).checkout_v2 is True


def test_a_set_of_overridden_flags_asks_nothing() -> None:
    """While a test has set every flag of a set, reading it makes no request."""
    s = setup(SERVED)
    s.service.fail()
    with override_flags(SERVED):
        assert read(s) == AS_SERVED
    assert s.service.requests == []


def test_defaults_are_not_shared_between_sets() -> None:
    """Changing an object in one set changes no other set and no default."""
    s = setup({})
    for made in (read(s), Checkout()):
        made.layout["columns"] = 9
    assert read(s).layout == Checkout().layout == {"columns": 1}


def test_without_the_service_a_set_has_its_defaults() -> None:
    """Where nothing was ever known, every field has its default."""
    s = setup(SERVED)
    s.service.fail(503)
    assert read(s) == Checkout()


def test_a_set_is_a_plain_frozen_object() -> None:
    """A set made by hand has its fields, compares by them, and cannot be changed."""
    checkout = Checkout(checkout_v2=True)
    assert (checkout.checkout_v2, checkout.banner, checkout.family) == (True, "blue", "not a flag")
    assert checkout == Checkout(checkout_v2=True) != Checkout()
    assert repr(checkout).startswith("Checkout(checkout_v2=True, banner='blue'")
    with pytest.raises(AttributeError, match="read-only"):
        checkout.banner = "green"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="read-only"):
        del checkout.banner
    with pytest.raises(TypeError, match="unhashable"):
        hash(checkout)
    with pytest.raises(TypeError, match="no field 'colour'"):
        Checkout(colour="red")  # type: ignore[call-arg]


def test_sets_inherit_fields() -> None:
    """A set made from another has the fields of both, and may narrow one of them."""

    class More(Checkout):
        extra: bool = True
        banner: Literal["green"] = "green"

    assert (More(limit=4).limit, More().extra, More().banner) == (4, True, "green")


def test_a_field_without_a_default_is_an_error_at_once() -> None:
    """Every field needs a default, for the day on which the flag cannot be had."""
    with pytest.raises(ConfigurationError, match=r"Bad\.x: needs a default"):

        class Bad(FlagSet):
            x: bool


def test_a_field_cannot_be_called_like_something_else() -> None:
    """A field whose name a method of a base has is an error at once, which says what to do."""
    with pytest.raises(ConfigurationError, match=r"Bad\.of: is taken by FlagSet"):

        class Bad(FlagSet):
            of: bool = False  # type: ignore[assignment]  # the mistake

    class Counted(FlagSet):
        x: int = 1

        def twice(self) -> int:
            return 2 * self.x

    assert Counted(x=2).twice() == 4
    with pytest.raises(ConfigurationError, match=r"Worse\.twice: is taken by Counted"):

        class Worse(Counted):
            twice: bool = False  # type: ignore[assignment]  # the mistake


def test_a_default_of_another_type_is_an_error_at_once() -> None:
    """A default that its own field would not take is found while the class is made."""
    with pytest.raises(ConfigurationError, match=r"Bad\.x: has a default that is not"):

        class Bad(FlagSet):
            x: bool = 1  # type: ignore[assignment]


def test_a_type_that_no_flag_can_have_is_an_error_at_once() -> None:
    """A field of a type that JSON has no form for is found while the class is made."""
    with pytest.raises(ConfigurationError, match=r"Bad\.x: has a type"):

        class Bad(FlagSet):
            x: threading.Thread = threading.current_thread()

    with pytest.raises(ConfigurationError, match=r"Ambiguous\.x: has a type"):

        class Ambiguous(FlagSet):
            x: dict[str, int] | dict[str, str] = {}  # noqa: RUF012  # a default


class Early(FlagSet):
    """A set with a type that is defined further down."""

    level: "Level" = "low"


Level = Literal["low", "high"]


def test_types_may_be_defined_later() -> None:
    """A field's type may be defined after the set."""
    assert setup({"level": "high"}).client.flags().as_(Early).level == "high"


def test_a_set_is_of_one_evaluation_whoever_refreshes_meanwhile() -> None:
    """Not of two, some fields before a change and some after it."""
    s = setup({"checkout-v2": False, "banner": "blue", "limit": 1})
    flags = s.client.flags(user_id="u1").load()

    def refresh(sender: object, *, result: EvaluationResult) -> None:
        if result.flag_key == "checkout-v2":
            s.service.set({"checkout-v2": True, "banner": "green", "limit": 2})
            s.client.evaluate_all({"userId": "u1"})
            flags.refresh()

    signals.connect(signals.flag_evaluated, refresh)
    try:
        before, after = flags.as_(Checkout), flags.as_(Checkout)
    finally:
        signals.disconnect(signals.flag_evaluated, refresh)
    assert (before.checkout_v2, before.banner, before.limit) == (False, "blue", 1)
    assert (after.checkout_v2, after.banner, after.limit) == (True, "green", 2)


async def test_a_set_of_many_threads_is_one_set() -> None:
    """Sets read in many threads of one request are equal."""
    flags = await setup(SERVED).client.flags().aload()
    sets = await asyncio.gather(*(asyncio.to_thread(flags.as_, Checkout) for _ in range(16)))
    assert sets == [AS_SERVED] * 16


@pytest.mark.parametrize(("served", "expected"), [("abc", "abc"), ("abcd", "x"), (7, "x")])
def test_a_field_may_bound_its_values(served: Any, expected: str) -> None:
    """What msgspec is told of a string beside its type is held to, and its key may be another."""

    class Short(FlagSet):
        word: Annotated[str, msgspec.Meta(max_length=3), FlagKey("a/word")] = "x"
        other: Annotated[bool, FlagKey("a/other")] = False

    s = setup({"a/word": served, "a/other": True})
    assert s.client.flags().as_(Short) == Short(word=expected, other=True)
