"""Work that one does and others wait for."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from shipsilently_core._process import Errand


def test_whoever_waits_for_work_that_nobody_does_does_it() -> None:
    """The work is done once, by the first who waits, in a thread or for a task."""
    done: list[str] = []
    errand = Errand(lambda: done.append(threading.current_thread().name), here=True)
    assert not errand.done
    assert errand.wait(0)
    assert errand.wait(0)
    assert asyncio.run(errand.await_(0))
    assert done == [threading.current_thread().name]

    later = Errand(lambda: done.append(threading.current_thread().name), here=True)
    assert asyncio.run(later.await_(0))
    assert done[1] != done[0]


async def test_work_for_a_task_needs_nothing_of_the_loop_s_executor() -> None:
    """A store is asked however busy the application keeps the threads of its event loop."""
    release = threading.Event()
    with ThreadPoolExecutor(1) as executor:
        loop = asyncio.get_running_loop()
        loop.set_default_executor(executor)
        hanging = loop.run_in_executor(None, release.wait, 20)
        errand = Errand(lambda: threading.current_thread().name, here=True)
        assert await errand.await_(0)
        assert not hanging.done()
        release.set()
        await hanging
    assert errand.result == "shipsilently-aside"


def test_work_of_another_thread_is_only_waited_for() -> None:
    """Where somebody else does the work, waiting ends with the time that is given."""
    errand = Errand(lambda: 5, here=False)
    assert not errand.wait(0)
    assert not asyncio.run(errand.await_(0))
    errand.run()
    assert errand.wait(0)
    assert errand.result == 5


def test_work_that_raises_leaves_nobody_waiting() -> None:
    """The error goes to who did the work; the others see that there is no result.

    What nobody waits for any more is not even begun.
    """

    def fail() -> int:
        raise ValueError("broken")

    errand = Errand(fail, here=False)
    given_up = Errand(fail, here=False)
    given_up.set(None)
    given_up.run()
    with pytest.raises(ValueError, match="broken"):
        errand.run()
    assert errand.done
    assert errand.result is None
