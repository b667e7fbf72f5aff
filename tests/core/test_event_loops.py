"""The event loop goes on, whatever the service does, and nothing is left behind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from shipsilently_core import ShipSilentlyClient
from tests.core.support import KEY
from tests.core.wire_server import Answer, WireServer, batch_of

#: Seconds; what was reported were gaps of many seconds.
LARGEST_GAP = 0.2


@asynccontextmanager
async def ticking() -> AsyncIterator[list[float]]:
    """The gaps between ticks that should come every 20 ms."""
    gaps: list[float] = []

    async def tick() -> None:
        last = time.monotonic()
        while True:
            await asyncio.sleep(0.02)
            now = time.monotonic()
            gaps.append(now - last)
            last = now

    task = asyncio.create_task(tick())
    await asyncio.sleep(0.05)
    gaps.clear()
    yield gaps
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.wait([task])


async def largest_gap(scenario: Callable[[], Awaitable[None]]) -> float:
    """The largest gap while `scenario` runs; on a busy machine, the best of a few times."""
    found = float("inf")
    for _ in range(4):
        async with ticking() as gaps:
            await scenario()
        assert gaps
        found = min(found, max(gaps))
        if found < LARGEST_GAP:
            break
    return found


@pytest.fixture(params=["closed port", "hung service", "dripping service"])
def address(request: pytest.FixtureRequest, free_port: int, server: WireServer) -> str:
    """The address of a service that is no use."""
    if request.param == "closed port":
        return f"http://127.0.0.1:{free_port}"
    if request.param == "hung service":
        server.always(Answer(silent=True))
    else:
        server.always(Answer(body=b" " * 1_000, step=1, pause=0.02))
    return server.url


@pytest.mark.parametrize("background", [True, False])
@pytest.mark.parametrize("custom", [False, True])
async def test_an_outage_never_freezes_the_loop(
    address: str, background: bool, custom: bool
) -> None:
    """Making, starting, evaluating in each way and closing leave the loop its ticks."""
    own = httpx.Client() if custom else None

    async def scenario() -> None:
        client = ShipSilentlyClient(
            api_key=KEY, api_url=address, timeout=0.2, background=background, http_client=own
        )
        if background:
            client.start()
        flags = client.flags({"userId": "u1"})
        assert flags.get("a", "default") == "default"
        await flags.aevaluate_all()
        assert await flags.aget("a", "default") == "default"
        assert await client.aevaluate("a", {"userId": "u2"}, "default") == "default"
        await client.aevaluate_all({"userId": "u3"})
        await client.aclose()

    assert await largest_gap(scenario) < LARGEST_GAP
    if own is not None:
        own.close()


async def test_a_service_that_answers_does_not_freeze_the_loop_either(server: WireServer) -> None:
    """Twenty requests at once with large answers leave the loop its ticks."""
    server.always(batch_of({f"flag-{number}": True for number in range(200)}))

    async def scenario() -> None:
        client = ShipSilentlyClient(api_key=KEY, api_url=server.url, timeout=20, background=False)
        await asyncio.gather(
            *(client.flags({"userId": f"u{number}"}).aevaluate_all() for number in range(20))
        )
        await client.aclose()

    assert await largest_gap(scenario) < LARGEST_GAP


FIRST_USE = """
import asyncio, ssl, sys, threading
from shipsilently_core import ShipSilentlyClient

done: list[tuple[str, str]] = []

def did(what):
    in_loop = threading.current_thread() is threading.main_thread()
    done.append(("in the loop" if in_loop else "aside", what))

def seen(event, args):
    if event == "import":
        did(args[0])

read = ssl.SSLContext.load_verify_locations

def reading(self, *args, **named):
    did("certificates")
    return read(self, *args, **named)

async def main():
    client = ShipSilentlyClient(
        api_key="sk_x", api_url=sys.argv[1], timeout=0.5, background=sys.argv[2] == "True"
    )
    ssl.SSLContext.load_verify_locations = reading
    sys.addaudithook(seen)
    assert await client.flags(None).aget("a", 0) == 0
    await client.aclose()
    for where, what in list(done):
        print(where, what, sep=": ")

asyncio.run(main())
"""


@pytest.mark.parametrize("background", [True, False])
def test_the_first_use_in_a_process_does_not_freeze_the_loop(
    free_port: int, background: bool
) -> None:
    """What is slow to import and to read is not imported and read in the event loop."""
    ended = subprocess.run(
        [sys.executable, "-c", FIRST_USE, f"https://127.0.0.1:{free_port}", str(background)],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
    )
    done = ended.stdout.splitlines()
    assert {"aside: shipsilently_core._http", "aside: certificates"} <= set(done)
    # A few small modules of its own are imported where it is first used.
    small = ("aside: ", "in the loop: shipsilently_core._")
    assert [line for line in done if not line.startswith(small)] == []


SCRIPT = """
import asyncio, gc, os, sys
from shipsilently_core import ShipSilentlyClient

client = ShipSilentlyClient(api_key="sk_x", api_url=sys.argv[1], max_age=0, background=False)

async def request(number):
    # Development mode tells of callbacks that a busy machine made slow.
    asyncio.get_running_loop().slow_callback_duration = 60
    assert await client.flags({"userId": f"u{number}"}).aget("a", 0) == 1
    assert (await client.aevaluate_all())["a"].value == 1

def open_sockets():
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            pass
    return found

for number in range(10):
    asyncio.run(request(number))
gc.collect()
assert client._transport._task_calls().loops == {}
if os.path.isdir("/proc/self/fd"):
    assert open_sockets() == 0, open_sockets()
client.close()
"""


def test_ten_loops_in_a_row_leak_nothing_and_warn_of_nothing(server: WireServer) -> None:
    """In development mode, with every warning an error, runs that follow each other stay clean."""
    server.always(batch_of({"a": 1}))
    ended = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", "-c", textwrap.dedent(SCRIPT), server.url],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert len(server.received) == 20


def test_no_event_loop_is_looked_for_where_none_can_be() -> None:
    """A process that reads flags without asyncio is not made to import it by that."""
    code = textwrap.dedent("""
        import sys
        from shipsilently_core import ShipSilentlyClient
        from shipsilently_core.testing import ScriptedService

        client = ShipSilentlyClient(api_key="sk_test", transport=ScriptedService({"x": True}))
        assert client.flags(user_id="1").get("x", False) is True
        assert "asyncio" not in sys.modules
    """)
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=30)
