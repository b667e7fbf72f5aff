"""A panel for Django Debug Toolbar: the flags that a request has read.

DEBUG_TOOLBAR_PANELS = [..., "shipsilently_django.panel.FlagsPanel"]
"""

from __future__ import annotations

import json
from typing import Any

from debug_toolbar.panels import Panel
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from shipsilently_core.contrib._shared import aged

from .recording import record, recorded
from .setup import get_client

__all__ = ["FlagsPanel"]


class FlagsPanel(Panel):  # type: ignore[misc]  # of no known type
    """Flags with value, reason, source, time and calls to the service."""

    is_async = True
    title = "Feature flags"
    template = "shipsilently/panel.html"

    @property
    def nav_subtitle(self) -> str:
        """How many, in the side bar."""
        count = len(self.get_stats().get("flags", ()))
        return f"{count} flag{'' if count == 1 else 's'} read"

    def process_request(self, request: HttpRequest) -> Any:
        """Have the request's flags recorded."""
        record(request)
        self._attempts = get_client().status().attempts
        return super().process_request(request)

    def generate_stats(self, request: HttpRequest, response: HttpResponseBase) -> None:
        """What was read, as the toolbar keeps it."""
        flags = recorded(request)
        client = get_client()
        self.record_stats(
            {
                "flags": [
                    {
                        "key": result.flag_key,
                        "value": json.dumps(result.value, ensure_ascii=False),
                        "reason": str(result.reason),
                        "rule": result.rule_id or "",
                        "source": aged(result.source, result.age),
                        "reads": reads,
                        "milliseconds": round(seconds * 1000, 3),
                    }
                    for result, seconds, reads in (flags.results() if flags else ())
                ],
                # Of the whole process: other requests at the same time count as well.
                "attempts": client.status().attempts - self._attempts,
                "state": str(client.connection_state),
            }
        )

    def generate_server_timing(self, request: HttpRequest, response: HttpResponseBase) -> None:
        """The time that all reads have taken."""
        flags = self.get_stats().get("flags", ())
        total = round(sum(flag["milliseconds"] for flag in flags), 3)
        self.record_server_timing("flags", self.nav_subtitle, total)
