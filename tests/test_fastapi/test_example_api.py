"""The example shop's API: described rightly, and standing whatever it is sent."""

import time
from collections.abc import Callable
from typing import Any

import httpx2
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from openapi_spec_validator import validate
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok

from shipsilently_local import LocalService

#: Made-up requests to each operation, in each state of the service.
EXAMPLES = 15
#: Seconds that a request may take on a bad day, machine and all; the client's own timeout is two.
LONGEST = 10.0


def up(service: LocalService) -> None:
    """A good day."""


def slow(service: LocalService) -> None:
    """Every answer takes its time."""
    service.fault("*", delay=0.2)


def hanging(service: LocalService) -> None:
    """No answer ever comes."""
    service.fault("*", silence=True, live=True)


def down(service: LocalService) -> None:
    """There is no service."""
    service.stop()


def test_the_shop_describes_its_api(shop: httpx2.Client) -> None:
    """The document is OpenAPI by the letter, and lists the gated endpoint with its refusal."""
    document = shop.get("/openapi.json").json()
    validate(document)
    responses = document["paths"]["/api/checkout"]["get"]["responses"]
    assert set(responses) == {"200", "404"}


@pytest.mark.parametrize("state", [up, slow, hanging, down])
@pytest.mark.timeout(120)
def test_no_request_breaks_the_shop(
    shop: httpx2.Client, local_service: LocalService, state: Callable[[LocalService], None]
) -> None:
    """Whatever the API allows is answered without a server error, on good and on bad days."""
    schema = schemathesis.openapi.from_dict(shop.get("/openapi.json").json())
    schema.config.update(base_url=str(shop.base_url))
    operations = [result.ok() for result in schema.get_all_operations() if isinstance(result, Ok)]
    state(local_service)
    called = set()
    with requests.Session() as browser:
        browser.trust_env = False

        def fuzz(operation: Any) -> None:
            @settings(
                max_examples=EXAMPLES,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(case=operation.as_strategy())
            def call(case: Any) -> None:
                called.add((case.method, case.path))
                began = time.monotonic()
                response = case.call(session=browser, timeout=LONGEST)
                case.validate_response(response, checks=[not_a_server_error])
                assert time.monotonic() - began < LONGEST

            call()

        for user in ("nobody", "ada"):
            # The flags of nobody in particular are known before; those of Ada have to be asked for.
            browser.post(f"{shop.base_url}/login", data={"user": user}, timeout=LONGEST)
            for operation in operations:
                fuzz(operation)
    assert called == {
        ("GET", "/"),
        ("GET", "/api/checkout"),
        ("POST", "/login"),
        ("POST", "/logout"),
    }
