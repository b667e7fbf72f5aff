"""The corpus of each parser, bytes that are almost like it, and machines as plain tests."""

from __future__ import annotations

from pathlib import Path

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

__all__ = ["Luck", "almost", "corpus", "damaged", "run"]

CORPUS = Path(__file__).parent / "corpus"
#: What parsers stumble over, to be put anywhere into what they know.
HOSTILE = (
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"\xed\xa0\x80",
    b"\r",
    b"\n",
    b"\r\n",
    b" ",
    b'"',
    b"\\",
    b"\\ud800",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"-",
    b"0",
    b"1e999",
    b"9" * 25,
    b"NaN",
    b"null",
    b"true",
    b"{}",
    b'"flagKey":"other",',
)


def corpus(parser: str) -> dict[str, bytes]:
    """Every file of a parser's corpus, by its name, which says what it is."""
    files = sorted((CORPUS / parser).iterdir())
    return {file.name: file.read_bytes() for file in files}


@st.composite
def almost(draw: st.DrawFn, parser: str) -> bytes:
    """A file of the corpus with a few cuts, doublings and foreign bytes in it."""
    return draw(damaged(draw(st.sampled_from(list(corpus(parser).values())))[:4_000]))


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """The same with a few cuts, doublings and foreign bytes in it."""
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.integers(0, 12)))
        put = draw(
            st.sampled_from(HOSTILE)
            | st.just(b"")
            | st.just(content[start:end] * 2)
            | st.binary(max_size=4)
        )
        content = content[:start] + put + content[end:]
    return content


class Luck:
    """Random numbers that the machine has drawn, so that its model knows them too."""

    def __init__(self) -> None:
        self.number = 0.5

    def __call__(self) -> float:
        """The number for now."""
        return self.number


def run(machine: type[RuleBasedStateMachine]) -> None:
    """Run a machine with the settings of the profile in force."""
    run_state_machine_as_test(machine)
