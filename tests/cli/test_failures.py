"""What went wrong, in words."""

import pytest

from shipsilently_cli._failures import explain, failures_of
from shipsilently_core import Failure, ShipSilentlyClient
from shipsilently_core.testing import ScriptedService


@pytest.mark.parametrize("failure", Failure)
def test_each_class_has_words_of_its_own(failure: Failure) -> None:
    """No class of failure is told by its bare name, and no two alike."""
    told = explain(failure)
    assert told != str(failure)
    assert [each for each in Failure if explain(each) == told] == [failure]


@pytest.mark.parametrize(
    ("status", "key", "told"),
    [
        (401, "x", "the key is refused (HTTP 401)"),
        (403, "x", "the key is refused (HTTP 403)"),
        (503, "x", "the service failed (HTTP 503)"),
        (418, "x", "what answered does not speak as the service does (HTTP 418)"),
        (None, "nothing", "there is no flag 'nothing'"),
    ],
)
def test_what_a_client_tells_is_collected(status: int | None, key: str, told: str) -> None:
    """The failures of the client's own calls are told with their status or flag."""
    service = ScriptedService({"x": True})
    client = ShipSilentlyClient(api_key="sk_test", transport=service)
    if status is not None:
        service.fail(status)
    with failures_of(client) as failures:
        client.evaluate(key, None, False)
    assert failures == [told]
    client.evaluate(key, None, False)
    assert len(failures) == 1
