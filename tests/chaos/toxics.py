"""What the adversary can do, each as a toxic."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import Callable, Sequence
from typing import NoReturn

from .adversary import Adversary, Toxic
from .wire import Answer, Question, Wire

__all__ = [
    "AnsweredTwice",
    "Bandwidth",
    "BareEvents",
    "Bomb",
    "Breaks",
    "Changed",
    "Delays",
    "Drips",
    "Ends",
    "EventFlood",
    "HalfOpen",
    "Kills",
    "LongEvent",
    "Mixed",
    "Raw",
    "Refuses",
    "Reorders",
    "StaleKeepAlive",
    "StopsInMidEvent",
    "Swallows",
    "Vanishes",
]

_FOREVER = 10_000_000


class Delays(Toxic):
    """Answers and events come late.

    Args:
        least: Seconds.
        most: Seconds.
    """

    def __init__(self, least: float, most: float) -> None:
        super().__init__()
        self._bounds = least, most

    async def _wait(self) -> None:
        await asyncio.sleep(random.uniform(*self._bounds))

    async def answer(self, wire: Wire, question: Question, answer: Answer) -> None:
        self.hit(question.asker)
        await self._wait()
        await wire.send(answer.raw)

    async def event(self, wire: Wire, event: bytes) -> None:
        self.hit("stream")
        await self._wait()
        await wire.send(event)


class Drips(Toxic):
    """Everything comes in small pieces, headers too.

    Args:
        pause: Seconds between two pieces.
        step: Bytes in a piece.
    """

    def __init__(self, pause: float, step: int = 1) -> None:
        super().__init__()
        self._pause = pause
        self._step = step

    async def answer(self, wire: Wire, question: Question, answer: Answer) -> None:
        self.hit(question.asker)
        await wire.drip(answer.raw, self._pause, self._step)

    async def open(self, wire: Wire, question: Question, head: Answer) -> None:
        self.hit("stream")
        await wire.drip(head.raw, self._pause, self._step)

    async def event(self, wire: Wire, event: bytes) -> None:
        self.hit("stream")
        await wire.drip(event, self._pause, self._step)


class Bandwidth(Drips):
    """Each connection carries so many bytes in a second."""

    def __init__(self, rate: int) -> None:
        super().__init__(0.05, rate // 20)


class HalfOpen(Toxic):
    """Connections are made and questions taken, and nothing is ever answered."""

    async def question(self, wire: Wire, question: Question) -> None:
        self.hit(question.asker)
        await wire.vanish()

    async def event(self, wire: Wire, event: bytes) -> None:
        self.hit("stream")
        await wire.vanish()


class Vanishes(Toxic):
    """The peer of every connection is gone without a word; new ones are made as ever."""

    async def begin(self, adversary: Adversary) -> None:
        for wire in adversary.wires:
            wire.dead = True
            self.hit("connection")


class Swallows(Toxic):
    """The host is off: nothing comes back from it, not even a refusal."""

    async def begin(self, adversary: Adversary) -> None:
        for wire in adversary.wires:
            wire.dead = True
            self.hit("connection")
        await adversary.swallow()

    async def end(self, adversary: Adversary) -> None:
        await adversary.refuse()
        await adversary.listen()


class Refuses(Toxic):
    """The service is stopped: connections are reset and refused."""

    async def begin(self, adversary: Adversary) -> None:
        self.hit("connection")
        await adversary.refuse()
        adversary.reset_all()

    async def end(self, adversary: Adversary) -> None:
        await adversary.listen()


class Ends(Toxic):
    """Connections are taken and ended at once; those that were there are reset."""

    async def begin(self, adversary: Adversary) -> None:
        adversary.reset_all()

    async def accept(self, wire: Wire) -> None:
        self.hit("connection")
        await wire.close()


class Breaks(Toxic):
    """Answers break off.

    Args:
        place: Where, of the bytes of an answer: after so many, or a share of them.
        reset: Whether by a reset, or by an end in the regular way.
    """

    def __init__(self, place: Callable[[Answer], int], *, reset: bool) -> None:
        super().__init__()
        self._place = place
        self._reset = reset

    async def _end(self, wire: Wire) -> NoReturn:
        if self._reset:
            await wire.reset()
        await wire.close()

    async def answer(self, wire: Wire, question: Question, answer: Answer) -> None:
        self.hit(question.asker)
        await wire.send(answer.raw[: self._place(answer)])
        await self._end(wire)

    async def event(self, wire: Wire, event: bytes) -> None:
        self.hit("stream")
        await wire.send(event[: len(event) // 2])
        await self._end(wire)


class StopsInMidEvent(Toxic):
    """Half an event comes, and then a reset; or comments for ever, and no other half.

    Args:
        reset: Whether there is a reset.
    """

    def __init__(self, *, reset: bool) -> None:
        super().__init__()
        self._reset = reset

    async def event(self, wire: Wire, event: bytes) -> None:
        self.hit("stream")
        # Not the first one, so that the stream has been up.
        if b"connected" in event:
            await wire.send(event)
            return
        await wire.send(event[: len(event) // 2])
        if self._reset:
            await wire.reset()
        await wire.drip(b"\n: still here\n" * _FOREVER, 0.1, 14)


class BareEvents(Toxic):
    """The stream's events hold something else, or are of no known name.

    Args:
        events: Sent before each.
    """

    def __init__(self, *events: bytes) -> None:
        super().__init__()
        self._events = events

    async def event(self, wire: Wire, event: bytes) -> None:
        self.hit("stream")
        await wire.send(b"".join(self._events) + event)


class LongEvent(Toxic):
    """The stream sends one line without an end.

    Args:
        size: Bytes.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    async def event(self, wire: Wire, event: bytes) -> None:
        self.hit("stream")
        await wire.send(b"event: flags.updated\ndata: ")
        piece = b"x" * 1024 * 1024
        for _ in range(self._size // len(piece)):
            await wire.send(piece)
        await wire.send(b"\n\n")


class EventFlood(Toxic):
    """The stream tells of changes without a pause."""

    async def event(self, wire: Wire, event: bytes) -> None:
        for _ in range(500):
            self.hit("stream")
            await wire.send(b'event: flags.updated\ndata: {"envId":"env"}\n\n')
        await wire.send(event)


class Reorders(Toxic):
    """Some answers are held back until newer ones have been delivered."""

    def __init__(self) -> None:
        super().__init__()
        self._newest: dict[str, int] = {}
        self._asked = 0

    async def answer(self, wire: Wire, question: Question, answer: Answer) -> None:
        self._asked += 1
        number = self._asked
        if random.random() < 0.5:
            await asyncio.sleep(random.uniform(0.2, 0.8))
        if number < self._newest.get(question.user, 0):
            self.hit(question.asker)
        self._newest[question.user] = max(number, self._newest.get(question.user, 0))
        await wire.send(answer.raw)


class StaleKeepAlive(Toxic):
    """A connection is ended just when it is used for the second time.

    Args:
        reset: Whether by a reset.
    """

    def __init__(self, *, reset: bool) -> None:
        super().__init__()
        self._reset = reset

    async def question(self, wire: Wire, question: Question) -> None:
        if not wire.served:
            return
        self.hit(question.asker)
        if self._reset:
            wire.abort()
        await wire.close()


class AnsweredTwice(Toxic):
    """Each answer comes twice, in one piece: the second could pass for the next one's."""

    async def answer(self, wire: Wire, question: Question, answer: Answer) -> None:
        self.hit(question.asker)
        await wire.send(answer.raw * 2)


class Changed(Toxic):
    """Answers are something else.

    Args:
        change: Makes it of the true one.
        kinds: Of which questions; all where none are named.
        close: Whether the connection ends with the answer.
        anew: Whether every connection is reset first.
    """

    def __init__(
        self,
        change: Callable[[Answer], Answer],
        *kinds: str,
        close: bool = False,
        anew: bool = False,
    ) -> None:
        super().__init__()
        self._anew = anew
        self._change = change
        self._kinds = kinds
        self._close = close

    async def begin(self, adversary: Adversary) -> None:
        if self._anew:
            adversary.reset_all()

    def _meant(self, question: Question) -> bool:
        return not self._kinds or question.kind in self._kinds

    async def answer(self, wire: Wire, question: Question, answer: Answer) -> None:
        if self._meant(question):
            self.hit(question.asker)
            answer = self._change(answer)
        await wire.send(answer.raw)
        if self._close:
            await wire.close()

    async def open(self, wire: Wire, question: Question, head: Answer) -> None:
        if not self._meant(question):
            await wire.send(head.raw)
            return
        self.hit("stream")
        await wire.send(self._change(head).raw)


class Raw(Toxic):
    """Bytes come before each answer, in its place, or without an end.

    Args:
        before: What comes before.
        times: How many times.
        pause: Seconds between.
        silent: Whether the answer itself does not come.
    """

    def __init__(
        self, before: bytes, times: int = 1, pause: float = 0.0, *, silent: bool = False
    ) -> None:
        super().__init__()
        self._before = before
        self._times = times
        self._pause = pause
        self._silent = silent

    async def answer(self, wire: Wire, question: Question, answer: Answer) -> None:
        self.hit(question.asker)
        await self._send(wire, answer)

    async def open(self, wire: Wire, question: Question, head: Answer) -> None:
        self.hit("stream")
        await self._send(wire, head)

    async def _send(self, wire: Wire, answer: Answer) -> None:
        for _ in range(self._times):
            await wire.send(self._before)
            await asyncio.sleep(self._pause)
        if self._silent:
            await wire.close()
        await wire.send(answer.raw)


class Bomb(Changed):
    """Answers are small and unpack to very much.

    Args:
        size: Bytes, unpacked.
    """

    def __init__(self, size: int) -> None:
        packed = _packed(size)
        super().__init__(
            lambda answer: answer.but(body=packed, headers={"Content-Encoding": "gzip"}),
            "batch",
            "evaluate",
            "ticket",
        )


def _packed(size: int) -> bytes:
    packer = gzip.zlib.compressobj(wbits=gzip.zlib.MAX_WBITS | 16)  # type: ignore[attr-defined]
    piece = b" " * 1024 * 1024
    parts = [packer.compress(b'{"flags":')]
    parts += [packer.compress(piece) for _ in range(size // len(piece))]
    return b"".join([*parts, packer.compress(b"{}}"), packer.flush()])


class Kills(Toxic):
    """Every connection is reset, and again and again.

    Args:
        every: Seconds; 0 for once.
    """

    def __init__(self, every: float = 0.0) -> None:
        super().__init__()
        self._every = every
        self._work: asyncio.Task[None] | None = None

    async def begin(self, adversary: Adversary) -> None:
        self._work = asyncio.get_running_loop().create_task(self._go_on(adversary))

    async def _go_on(self, adversary: Adversary) -> None:
        while True:
            self.hit("connection")
            adversary.reset_all()
            if not self._every:
                return
            await asyncio.sleep(self._every)

    async def end(self, adversary: Adversary) -> None:
        if self._work is not None:
            self._work.cancel()


class Mixed(Toxic):
    """Each time another one of several.

    Args:
        toxics: Those.
    """

    def __init__(self, toxics: Sequence[Toxic]) -> None:
        super().__init__()
        self._toxics = toxics

    def _next(self, whom: str) -> Toxic:
        self.hit(whom)
        return random.choice(self._toxics)

    async def question(self, wire: Wire, question: Question) -> None:
        await self._next(question.asker).question(wire, question)

    async def answer(self, wire: Wire, question: Question, answer: Answer) -> None:
        await self._next(question.asker).answer(wire, question, answer)

    async def open(self, wire: Wire, question: Question, head: Answer) -> None:
        await self._next("stream").open(wire, question, head)

    async def event(self, wire: Wire, event: bytes) -> None:
        await self._next("stream").event(wire, event)


def edited(change: Callable[[dict[str, object]], object]) -> Callable[[Answer], Answer]:
    """A change of an answer's JSON; what `change` returns takes its place, unless ``None``."""

    def edit(answer: Answer) -> Answer:
        content = json.loads(answer.body)
        other = change(content)
        return answer.but(body=json.dumps(content if other is None else other).encode())

    return edit
