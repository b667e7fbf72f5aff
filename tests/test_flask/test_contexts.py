"""Flask's contexts are found on the short way, and on the long one where that is gone."""

import pytest
from flask.globals import request_ctx
from shipsilently_flask.contexts import asked_directly

from .apps import bare_app


def test_contexts_are_found_by_the_proxies_where_flask_names_its_variables_otherwise() -> None:
    """A Flask whose variables have other names is asked by its proxies, for the same contexts."""
    directly = asked_directly("_cv_request", request_ctx)
    by_proxy = asked_directly("another name", request_ctx)
    with bare_app().test_request_context():
        assert directly() is by_proxy() is request_ctx._get_current_object()  # type: ignore[attr-defined]
    for ask in (directly, by_proxy):
        with pytest.raises((LookupError, RuntimeError)):
            ask()
