"""A panel for Flask-DebugToolbar: the flags as this request sees them, and which it has read.

Not imported by the rest of the package; name it in ``DEBUG_TB_PANELS``::

    app.config["DEBUG_TB_PANELS"] = [..., "shipsilently_flask.debugtoolbar.FlagsDebugPanel"]
"""

from __future__ import annotations

import json
from typing import Any

from flask import Flask
from flask_debugtoolbar.panels import DebugPanel
from jinja2 import Environment

from shipsilently_core import EvaluationResult
from shipsilently_core.contrib._shared import aged

from .current import kept_flags
from .people import own_request
from .signals import flag_evaluated

__all__ = ["FlagsDebugPanel"]

_KEY = "_shipsilently_read"

_CONTENT = Environment(autoescape=True).from_string("""\
{% if not results and not context %}
<p>This request read no flag, so none was evaluated.</p>
{% else %}
{% if context %}<p>Evaluated for <code>{{ context }}</code></p>{% endif %}
<table>
  <thead>
    <tr><th>Read</th><th>Flag</th><th>Value</th><th>Reason</th><th>Rule</th><th>From</th></tr>
  </thead>
  <tbody>
  {% for flag in results %}
    <tr class="{{ loop.cycle('flDebugOdd', 'flDebugEven') }}">
      <td>{{ "read" if flag.flag_key in read else "" }}</td>
      <td>{{ flag.flag_key }}</td>
      <td><code>{{ json(flag.value) }}</code></td>
      <td>{{ flag.reason }}</td>
      <td>{{ flag.rule_id or "" }}</td>
      <td>{{ aged(flag.source, flag.age) }}</td>
    </tr>
  {% endfor %}
  </tbody>
</table>
{% endif %}
""")


def _remember(app: Flask, *, result: EvaluationResult) -> None:
    """Note on the request that it has read a flag, and what it was served."""
    request = own_request(app)
    if request is not None:
        # The request's own, so that its threads note it in the same place.
        vars(request).setdefault(_KEY, {})[result.flag_key] = result


class FlagsDebugPanel(DebugPanel):
    """Lists every flag with value, reason, rule and source, without an evaluation of its own.

    Those that the request has read come first, as they were served, also where the service
    knows no such flag.
    """

    name = "ShipSilently"
    has_content = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._read: dict[str, EvaluationResult] = {}
        self._results: list[EvaluationResult] = []
        self._context = ""

    @classmethod
    def init_app(cls, app: Flask) -> None:
        """The toolbar is set up on an app: listen to what its requests read."""
        flag_evaluated.connect(_remember, app)

    def process_response(self, request: Any, response: Any) -> None:
        """Keep what the request has seen."""
        flags = kept_flags()
        self._read = dict(vars(request).get(_KEY, {}))
        results = dict(self._read)
        if flags is not None:
            results = {**flags.evaluate_all(), **self._read}
            self._context = flags.context.body.decode()
        keys = sorted(results, key=lambda key: (key not in self._read, key))
        self._results = [results[key] for key in keys]

    def nav_title(self) -> str:
        """The panel's name in the toolbar."""
        return "Flags"

    def nav_subtitle(self) -> str:
        """How many flags were read, and where the values come from."""
        if not self._results and not self._context:
            return "none read"
        sources = sorted({str(result.source) for result in self._results})
        return (
            f"{len(self._read)} read of {len(self._results)} from {', '.join(sources) or 'nowhere'}"
        )

    def title(self) -> str:
        """The panel's heading."""
        return "Feature flags"

    def url(self) -> str:
        """Opens in the page itself."""
        return ""

    def content(self) -> str:
        """The table."""
        return _CONTENT.render(
            results=self._results,
            read=self._read,
            context=self._context,
            json=json.dumps,
            aged=aged,
        )
