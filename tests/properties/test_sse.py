"""The parser of event streams: a machine that writes line by line, and a second reader."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shipsilently_core._sse import Event, EventParser, EventTooLargeError
from tests.properties.support import almost, corpus, run

BOM = b"\xef\xbb\xbf"
FILES = corpus("sse")

TEXT = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=12)


class StreamMachine(RuleBasedStateMachine):
    """A server writes fields and blank lines, and they come in pieces cut anywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.parser = EventParser()
        self.written = b""
        self.fed = 0
        self.name = ""
        self.data: list[str] = []
        self.last_id = ""
        # Each event and the wish to wait, with the length of the stream that completes it.
        self.expected: list[tuple[int, Event]] = []
        self.wishes: list[tuple[int, int]] = []
        self.found: list[Event] = []

    @initialize(bom=st.booleans())
    def begin(self, bom: bool) -> None:
        self.written = BOM if bom else b""

    def line(self, content: bytes, end: bytes) -> int:
        """Write a line; the length of the stream at which it is complete."""
        if not content and end == b"\n" and self.written.endswith(b"\r"):
            end = b"\r"  # else both would be one end of one line
        self.written += content
        complete = len(self.written) + 1
        self.written += end
        return complete

    ends = st.sampled_from([b"\n", b"\r", b"\r\n"])
    spaces = st.sampled_from(["", " "])

    @rule(value=TEXT, space=spaces, end=ends)
    def data_line(self, value: str, space: str, end: bytes) -> None:
        self.line(f"data:{space}{value}".encode(), end)
        self.data.append(read_back(space + value))

    @rule(end=ends)
    def data_line_without_a_colon(self, end: bytes) -> None:
        self.line(b"data", end)
        self.data.append("")

    @rule(name=TEXT | st.just("flags.updated"), space=spaces, end=ends)
    def name_line(self, name: str, space: str, end: bytes) -> None:
        self.line(f"event:{space}{name}".encode(), end)
        self.name = read_back(space + name)

    @rule(value=TEXT, space=spaces, end=ends)
    def id_line(self, value: str, space: str, end: bytes) -> None:
        self.line(f"id:{space}{value}".encode(), end)
        if "\0" not in value:
            self.last_id = read_back(space + value)

    @rule(value=st.integers(0, 10**9), end=ends)
    def retry_line(self, value: int, end: bytes) -> None:
        complete = self.line(f"retry: {value}".encode(), end)
        self.wishes.append((complete, value))

    @rule(
        line=st.sampled_from(
            [
                b": a comment",
                b":",
                b"DATA: x",
                b" data: x",
                b"data : x",
                b"unknown: x",
                b"retry: soon",
                b"retry: -1",
                b"retry: \xd9\xa3",
                b"\xff\xfe: x",
                b"\xe2\x80\xa8data: x",
                b"\x0bdata: x",
            ]
        ),
        end=ends,
    )
    def line_that_says_nothing(self, line: bytes, end: bytes) -> None:
        self.line(line, end)

    @rule(end=ends)
    def blank_line(self, end: bytes) -> None:
        complete = self.line(b"", end)
        if self.data:
            event = Event(self.name, "\n".join(self.data), self.last_id)
            self.expected.append((complete, event))
        self.name, self.data = "", []

    @precondition(lambda self: self.fed < len(self.written))
    @rule(size=st.integers(0, 30) | st.just(10**6))
    def a_piece_arrives(self, size: int) -> None:
        self.found += self.parser.feed(self.written[self.fed : self.fed + size])
        self.fed = min(len(self.written), self.fed + size)

    @invariant()
    def has_given_what_is_complete_and_no_more(self) -> None:
        assert self.found == [event for complete, event in self.expected if complete <= self.fed]
        wishes = [wish for complete, wish in self.wishes if complete <= self.fed]
        assert self.parser.retry == (wishes[-1] if wishes else None)

    def teardown(self) -> None:
        if self.fed < len(self.written):
            self.a_piece_arrives(10**6)
        self.has_given_what_is_complete_and_no_more()


def read_back(text: str) -> str:
    """A field's value without the one space that may precede it."""
    return text.removeprefix(" ")


def test_every_event_is_given_when_its_blank_line_is_there() -> None:
    """In pieces of any size, each event comes whole, in order, and neither early nor late."""
    run(StreamMachine)


def second_reader(stream: bytes) -> list[Event]:
    """The events of a whole stream, read by the letter of the standard."""
    text = stream.decode("utf-8", "replace").removeprefix("\ufeff")
    *lines, _ = re.split("\r\n|\r|\n", text)
    events, name, data, last_id = [], "", "", ""
    for line in lines:
        if not line:
            if data:
                events.append(Event(name, data.removesuffix("\n"), last_id))
            name = data = ""
            continue
        field, colon, value = line.partition(":")
        value = value.removeprefix(" ") if colon else ""
        if field == "event":
            name = value
        elif field == "data":
            data += value + "\n"
        elif field == "id" and "\0" not in value:
            last_id = value
    return events


def read(stream: bytes, cuts: list[int] | None = None) -> list[Event]:
    """The events of a stream that comes in pieces cut at these places."""
    parser = EventParser()
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts or ())})
    return [event for a, b in pairwise(places) for event in parser.feed(stream[a:b])]


@pytest.mark.parametrize("name", FILES)
def test_the_corpus_is_read_as_the_standard_says(name: str) -> None:
    """Each stream of the corpus has the events of the standard, also byte by byte."""
    stream = FILES[name]
    expected = second_reader(stream)
    assert read(stream) == expected
    assert read(stream, list(range(len(stream)))) == expected


@given(almost("sse") | st.binary(max_size=80), st.lists(st.integers(0, 10_000), max_size=6))
@example(b"data: \xe2\x80\n\ndata: \xf0\x9f\r\r", [7, 8])
@example(BOM + BOM + b"data: 1\n\n", [1, 2, 4])
def test_any_bytes_are_read_as_the_standard_says(stream: bytes, cuts: list[int]) -> None:
    """Whatever comes, in whatever pieces, has the events that the standard gives it."""
    assert read(stream, cuts) == second_reader(stream)


@given(
    st.lists(st.tuples(st.integers(1, 90), st.sampled_from([b"\n", b"\r\n"])), max_size=12),
    st.lists(st.integers(0, 1_000), max_size=8),
)
def test_a_line_beyond_the_cap_ends_the_stream_and_a_shorter_one_never_does(
    lines: list[tuple[int, bytes]], cuts: list[int]
) -> None:
    """The parser gives up at the first line that is too long, before it is held whole twice."""
    cap = 40
    stream = b"".join(b"x" * size + end for size, end in lines)
    # Where the first line that is too long ends.
    limit, complete = len(stream), 0
    for size, end in lines:
        complete += size + len(end)
        if size > cap:
            limit = complete
            break
    too_long = any(size > cap for size, _ in lines)
    parser, fed = EventParser(max_line=cap, max_event=100), 0
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    try:
        for a, b in pairwise(places):
            assert not parser.feed(stream[a:b])
            fed = b
            assert not (too_long and fed >= limit)
    except EventTooLargeError:
        assert too_long
    else:
        assert not too_long


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12))
def test_an_event_beyond_the_cap_ends_the_stream_and_a_smaller_one_never_does(
    sizes: list[int],
) -> None:
    """An event may hold as much as the cap says, counted with the ends of its lines."""
    cap = 100
    parser = EventParser(max_line=1_000, max_event=cap)
    stream = b"".join(b"data:" + b"x" * size + b"\n" for size in sizes) + b"\n"
    if sum(size + 1 for size in sizes) > cap:
        with pytest.raises(EventTooLargeError):
            parser.feed(stream)
    else:
        assert [len(event.data) for event in parser.feed(stream)] == [sum(sizes) + len(sizes) - 1]
