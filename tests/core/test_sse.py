"""Server-sent events, decoded step by step from bytes."""

from __future__ import annotations

import codecs
import itertools
import tracemalloc
from collections.abc import Iterable, Iterator, Sequence

import httpx
import httpx_sse
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shipsilently_core import _sse
from shipsilently_core._sse import Event, EventParser, EventTooLargeError

BOM = codecs.BOM_UTF8


def parse(stream: bytes, *, size: int | None = None) -> list[tuple[str, str, str]]:
    """The events of a stream that comes in chunks of `size` bytes, or in one."""
    parser = EventParser()
    step = size or max(len(stream), 1)
    chunks = (stream[start : start + step] for start in range(0, len(stream), step))
    return [(e.name, e.data, e.last_id) for chunk in chunks for e in parser.feed(chunk)]


def named(*data: str, name: str = "", last_id: str = "") -> list[tuple[str, str, str]]:
    """Events with this data and all else alike."""
    return [(name, one, last_id) for one in data]


CASES: dict[str, tuple[bytes, list[tuple[str, str, str]]]] = {
    "a name and data": (b"event: a\ndata: 1\n\n", [("a", "1", "")]),
    "no name": (b"data: 1\n\n", named("1")),
    "an empty name": (b"event\ndata: 1\n\nevent:\ndata: 2\n\n", named("1", "2")),
    "the last name counts": (b"event: a\nevent: b\ndata: 1\n\n", [("b", "1", "")]),
    "a name is of one event only": (
        b"event: a\ndata: 1\n\ndata: 2\n\n",
        [("a", "1", ""), ("", "2", "")],
    ),
    "a byte order mark": (BOM + b"data: 1\n\n", named("1")),
    "a byte order mark before a blank line": (BOM + b"\ndata: 1\n\n", named("1")),
    "two byte order marks": (BOM + BOM + b"data: 1\n\ndata: 2\n\n", named("2")),
    "a byte order mark later on": (b"\n" + BOM + b"data: 1\n\ndata: 2\n\n", named("2")),
    "line feeds": (b"data: 1\ndata: 2\n\n", named("1\n2")),
    "carriage returns": (b"data: 1\rdata: 2\r\r", named("1\n2")),
    "both": (b"data: 1\r\ndata: 2\r\n\r\n", named("1\n2")),
    "a mixture": (b"data: 1\rdata: 2\r\ndata: 3\n\rdata: 4\n\r\n", named("1\n2\n3", "4")),
    "the two in the wrong order are two": (b"data: 1\n\rdata: 2\n\r", named("1", "2")),
    "several blank lines": (b"\n\n\ndata: 1\n\n\n\n", named("1")),
    "several lines": (b"data: 1\ndata: 2\ndata: 3\n\n", named("1\n2\n3")),
    "an empty line of data": (b"data:\n\ndata\n\n", named("", "")),
    "two empty lines of data": (b"data\ndata\n\n", named("\n")),
    "an empty last line": (b"data: 1\ndata:\n\n", named("1\n")),
    "no data": (b"event: a\n\nid: 7\n\nretry: 9\n\n", []),
    "no data forgets the name": (b"event: a\n\ndata: 1\n\n", named("1")),
    "no data keeps the id": (b"id: 7\n\ndata: 1\n\n", named("1", last_id="7")),
    "comments": (b": hello\n:\n:data: 0\ndata: 1\n: there\n\n:\n\n", named("1")),
    "only comments": (b":\n\n" * 3, []),
    "comments after an id": (b"id: 7\ndata: 1\n\n:\n\n:\n\n", named("1", last_id="7")),
    "unknown fields": (b"foo: 1\ndatum: 2\nDATA: 3\n data: 4\ndata : 5\n\n", []),
    "one leading space is taken away": (
        b"data:1\n\ndata: 1\n\ndata:  1\n\ndata:\t1\n\n",
        named("1", "1", " 1", "\t1"),
    ),
    "spaces at the end stay": (b"data: 1 \n\n", named("1 ")),
    "colons in the value": (b"data: a:b: c\n\ndata::\n\n", named("a:b: c", ":")),
    "an id": (b"id: 7\ndata: 1\n\n", named("1", last_id="7")),
    "an id is kept": (b"id: 7\ndata: 1\n\ndata: 2\n\n", named("1", "2", last_id="7")),
    "an empty id takes it back": (
        b"id: 7\ndata: 1\n\nid\ndata: 2\n\n",
        [("", "1", "7"), ("", "2", "")],
    ),
    "an id with a null is no id": (b"id: 7\nid: a\0b\ndata: 1\n\n", named("1", last_id="7")),
    "no end": (b"data: 1\n\ndata: 2\n", named("1")),
    "no end of the line": (b"data: 1\n\ndata: 2", named("1")),
    "nothing": (b"", []),
    "characters of several bytes": ("data: é€😀\n\n".encode(), named("é€😀")),
    "separators of other standards": (
        "data: a\u2028b\u2029c\u0085d\ve\ff\x1cg\x1dh\x1ei\n\n".encode(),
        named("a\u2028b\u2029c\u0085d\ve\ff\x1cg\x1dh\x1ei"),
    ),
    "no text at all": (b"data: a\xffb\xc3\n\n", named("a\ufffdb\ufffd")),
    "half a character before the end of a line": (b"data: \xe2\x82\n\n", named("\ufffd")),
    "a null": (b"data: a\0b\n\n", named("a\0b")),
}


@pytest.mark.parametrize("size", [None, 1, 2, 3, 5])
@pytest.mark.parametrize("case", CASES)
def test_streams_are_read_as_the_standard_says(case: str, size: int | None) -> None:
    """Each rule of the standard holds, in one chunk as in chunks of few bytes."""
    stream, events = CASES[case]
    assert parse(stream, size=size) == events


@pytest.mark.parametrize("case", CASES)
def test_every_border_between_two_chunks_is_harmless(case: str) -> None:
    """Wherever a stream is cut in two, its events are the same."""
    stream, events = CASES[case]
    for cut in range(len(stream) + 1):
        parser = EventParser()
        found = parser.feed(stream[:cut]) + parser.feed(b"") + parser.feed(stream[cut:])
        assert [(e.name, e.data, e.last_id) for e in found] == events


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_an_event_is_complete_at_its_blank_line(end: bytes) -> None:
    """An event is given as soon as its blank line is there, whatever may follow."""
    parser = EventParser()
    assert parser.feed(b"data: 1" + end) == []
    assert parser.feed(end) == [Event("", "1", "")]
    assert parser.feed(b"data: 2" + end + end) == [Event("", "2", "")]


@pytest.mark.parametrize(
    ("value", "retry"),
    [
        (b"2500", 2500),
        (b"0", 0),
        (b"007", 7),
        (b"9" * 5000, 10**18 - 1),
        (b"", None),
        (b"-5", None),
        (b"+5", None),
        (b"1_0", None),
        (b"1.5", None),
        (b" 5", None),
        (b"5 ", None),
        (b"1e3", None),
        ("٣".encode(), None),
        ("²".encode(), None),
        (b"soon", None),
    ],
)
def test_retry_takes_digits_only(value: bytes, retry: int | None) -> None:
    """A wish for a delay is a run of ASCII digits; all else is ignored."""
    parser = EventParser()
    parser.feed(b"retry: " + value + b"\n")
    assert parser.retry == retry


def test_line_separators_of_unicode_do_not_cut_an_event() -> None:
    """Events whose text holds line separators of Unicode and old controls come through whole."""
    text = '{"a":"x\u2028y\u2029z\u0085"}'
    stream = (
        f"event: flags.updated\ndata: {text}\n\n"
        "event: other\ndata: a\vb\fc\x1cd\n\n"
        f"event: flags.updated\ndata: {text}\n\n"
    ).encode()
    updated = ("flags.updated", text, "")
    for size in (None, 1, 7):
        assert parse(stream, size=size) == [updated, ("other", "a\vb\fc\x1cd", ""), updated]


# Caps.


def repeated(chunks: Sequence[bytes], *, up_to: int) -> Iterator[bytes]:
    """These chunks again and again, of `up_to` bytes in all."""
    return itertools.islice(itertools.cycle(chunks), up_to * len(chunks) // len(b"".join(chunks)))


def feed_all(parser: EventParser, chunks: Iterable[bytes]) -> list[Event]:
    return [event for chunk in chunks for event in parser.feed(chunk)]


@pytest.mark.parametrize(
    "chunks",
    [
        [b"x"],
        [b"x" * 700],
        [b": comment "],
        [b"data: " + b"x" * 5000 + b"\n"],
        [b"\n" + b"x" * 5000, b"\n"],
        [b"data: xxxxxxxx\n"],
        [b"data\n"],
        [b"data\r\n"],
        [b"d", b"a", b"t", b"a", b"\n"],
        [b"event: a\n", b"data\n"],
        [b"data: 1\nid: 2\nretry: 3\n:\n"],
    ],
    ids=lambda chunks: chunks[0][:12].decode().strip() or "a line that began in a chunk",
)
def test_endless_lines_and_events_are_refused(chunks: Sequence[bytes]) -> None:
    """A line or an event that never ends is refused near the cap and holds no more memory."""
    parser = EventParser(max_line=1000, max_event=4000)
    with pytest.raises(EventTooLargeError, match="than the cap"):
        feed_all(parser, repeated(chunks, up_to=60_000))


def test_what_fits_exactly_is_accepted() -> None:
    """A line of as many bytes as the cap is accepted, one more is not, in any chunks."""
    line = b"data:" + b"x" * 95
    for size in (1, 7, 200):
        for extra, fits in ((b"", True), (b"x", False)):
            parser = EventParser(max_line=100)
            stream = line + extra + b"\n\n"
            chunks = [stream[i : i + size] for i in range(0, len(stream), size)]
            if fits:
                assert feed_all(parser, chunks) == [Event("", "x" * 95, "")]
            else:
                with pytest.raises(EventTooLargeError, match="a line is longer"):
                    feed_all(parser, chunks)


def test_the_cap_is_for_each_event() -> None:
    """Any number of events that each fit is accepted."""
    parser = EventParser(max_line=100, max_event=100)
    for _ in range(100):
        assert parser.feed(b"data: " + b"x" * 80 + b"\n\n") == [Event("", "x" * 80, "")]


@pytest.mark.parametrize(
    "chunk",
    [b":\n", b"event: a\n", b"id: 7\n", b"\n", b"\r", b"foo: bar\n", b"data: 1\n\n", b""],
)
def test_endless_streams_hold_no_memory(chunk: bytes) -> None:
    """Whatever comes for however long, nothing of it is kept that no event needs."""
    parser = EventParser()
    for _ in range(100):
        parser.feed(chunk)
    tracemalloc.start()
    try:
        for _ in range(20_000):
            parser.feed(chunk)
        # What it has made alone: other threads of this process hold memory of their own.
        made = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, _sse.__file__)])
    finally:
        tracemalloc.stop()
    assert sum(each.size for each in made.statistics("filename")) < 5_000


# Beside another implementation.

ends = st.sampled_from([b"\n", b"\r", b"\r\n"])
values = st.one_of(
    st.text(alphabet=st.characters(exclude_characters="\r\n", codec="utf-8"), max_size=12).map(
        lambda text: text.encode()
    ),
    st.binary(max_size=8).map(lambda data: data.replace(b"\r", b"").replace(b"\n", b"")),
    st.sampled_from([b"", b" ", b"  x", b":", "\u2028\u0085".encode(), b"\0", BOM]),
)
colons = st.sampled_from([b":", b": "])
fields = st.sampled_from([b"data", b"event", b"id", b"foo", b"", b"Data", b"data "])
lines = st.one_of(
    st.builds(lambda name, colon, value: name + colon + value, fields, colons, values),
    st.sampled_from([b"data", b"event", b"id", b"foo", b"retry: 30"]),
)


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """A stream on which httpx-sse is right.

    Its first line has no byte order mark, and every event has data: httpx-sse loses
    the first field after a mark and gives an event for a blank line without data
    once there was an id.
    """
    stream = b""
    for _ in range(draw(st.integers(0, 4))):
        block = draw(st.lists(lines, max_size=4))
        block.insert(draw(st.integers(0, len(block))), b"data" + draw(colons) + draw(values))
        for line in block:
            stream += line + draw(ends)
        # After a carriage return a line feed would be the second half of that line's end.
        blank = draw(ends)
        stream += b"\r" if stream.endswith(b"\r") and blank == b"\n" else blank
    return stream + draw(st.sampled_from([b"", b"data: unfinished", b"data: unfinished\n"]))


@st.composite
def chunked(draw: st.DrawFn, of: st.SearchStrategy[bytes]) -> tuple[bytes, list[bytes]]:
    """A stream and its chunks."""
    stream = draw(of)
    cuts = sorted(draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    borders = [0, *cuts, len(stream)]
    return stream, [stream[a:b] for a, b in itertools.pairwise(borders)]


@given(chunked(st.one_of(streams(), st.binary(max_size=60))))
def test_chunks_make_no_difference(sample: tuple[bytes, list[bytes]]) -> None:
    """Any stream, even of any bytes, gives the same events in whatever chunks it comes."""
    stream, chunks = sample
    parser = EventParser()
    found = [(e.name, e.data, e.last_id) for chunk in chunks for e in parser.feed(chunk)]
    assert found == parse(stream)


@given(chunked(streams()))
def test_events_are_those_of_another_implementation(sample: tuple[bytes, list[bytes]]) -> None:
    """Where httpx-sse keeps to the standard, both read the same events."""
    stream, chunks = sample
    response = httpx.Response(
        200, headers={"content-type": "text/event-stream"}, content=iter(chunks)
    )
    theirs = [
        (event.event, event.data, event.id) for event in httpx_sse.EventSource(response).iter_sse()
    ]
    assert theirs == [(name or "message", data, i) for name, data, i in parse(stream)]


@pytest.mark.parametrize(
    ("stream", "ours", "theirs"),
    [
        (b"id: 7\ndata: 1\n\n:\n\n", ["1"], ["1", ""]),
        (b"id: 7\n\n", [], [""]),
        (BOM + b"data: 1\n\n", ["1"], []),
        (b"event: a\n\n", [], [""]),
    ],
)
def test_the_known_differences_are_on_our_side(
    stream: bytes, ours: list[str], theirs: list[str]
) -> None:
    """The cases kept out of the comparison are ones where httpx-sse leaves the standard."""
    response = httpx.Response(
        200, headers={"content-type": "text/event-stream"}, content=iter([stream])
    )
    assert [event.data for event in httpx_sse.EventSource(response).iter_sse()] == theirs
    assert [data for _, data, _ in parse(stream)] == ours
