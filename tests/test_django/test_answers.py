"""What a closed gate may answer."""

from http import HTTPStatus

import pytest
from shipsilently_django import RequiresFlagMixin, flagged_path, requires_flag

from .site import sync_view


@pytest.mark.parametrize("status", [400, 404, 451, 503, 599, HTTPStatus.GONE])
def test_an_error_is_a_refusal(status: int) -> None:
    """Each status of an error can be chosen."""
    requires_flag("x", status=status)


@pytest.mark.parametrize("status", [200, 204, 302, 399, 600, True, "404", None])
def test_what_is_no_error_is_refused_when_it_is_written(status: int) -> None:
    """A closed gate that says all is well is a mistake, found where the gate is made."""
    with pytest.raises(ValueError, match="status must be that of an error, 400 to 599"):
        requires_flag("x", status=status)
    with pytest.raises(ValueError, match="status must be that of an error, 400 to 599"):
        flagged_path("x", "", sync_view, status=status)

    class Page(RequiresFlagMixin):
        required_flag = "x"
        flag_status = status

    with pytest.raises(ValueError, match="status must be that of an error, 400 to 599"):
        Page().get_flag_gate()
