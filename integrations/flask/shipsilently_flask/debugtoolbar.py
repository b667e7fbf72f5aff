"""A panel for Flask-DebugToolbar: the flags as this request sees them, and where they come from.

Not imported by the rest of the package; name it in ``DEBUG_TB_PANELS``::

    app.config["DEBUG_TB_PANELS"] = [..., "shipsilently_flask.debugtoolbar.FlagsDebugPanel"]
"""

from __future__ import annotations

import json
from typing import Any

from flask_debugtoolbar.panels import (  # type: ignore[import-not-found,unused-ignore]  # optional
    DebugPanel,
)
from jinja2 import Environment

from shipsilently_core import EvaluationResult

from .current import kept_flags

__all__ = ["FlagsDebugPanel"]

_CONTENT = Environment(autoescape=True).from_string("""\
{% if results is none %}
<p>This request read no flag, so none was evaluated.</p>
{% else %}
<p>Evaluated for <code>{{ context }}</code></p>
<table>
  <thead><tr><th>Flag</th><th>Value</th><th>Reason</th><th>Rule</th><th>From</th></tr></thead>
  <tbody>
  {% for flag in results %}
    <tr class="{{ loop.cycle('flDebugOdd', 'flDebugEven') }}">
      <td>{{ flag.flag_key }}</td>
      <td><code>{{ json(flag.value) }}</code></td>
      <td>{{ flag.reason }}</td>
      <td>{{ flag.rule_id or "" }}</td>
      <td>{{ flag.source }}</td>
    </tr>
  {% endfor %}
  </tbody>
</table>
{% endif %}
""")


class FlagsDebugPanel(DebugPanel):  # type: ignore[misc,unused-ignore]  # a class of theirs
    """Lists every flag with value, reason, rule and source, without an evaluation of its own."""

    name = "ShipSilently"
    has_content = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._results: list[EvaluationResult] | None = None
        self._context = ""

    def process_response(self, request: Any, response: Any) -> None:
        """Keep what the request has seen."""
        flags = kept_flags()
        if flags is not None:
            results = flags.evaluate_all()
            self._results = [results[key] for key in sorted(results)]
            self._context = flags.context.body.decode()

    def nav_title(self) -> str:
        """The panel's name in the toolbar."""
        return "Flags"

    def nav_subtitle(self) -> str:
        """How many flags, and from where."""
        if self._results is None:
            return "none read"
        sources = sorted({str(result.source) for result in self._results})
        return f"{len(self._results)} from {', '.join(sources) or 'nowhere'}"

    def title(self) -> str:
        """The panel's heading."""
        return "Feature flags"

    def url(self) -> str:
        """Opens in the page itself."""
        return ""

    def content(self) -> str:
        """The table."""
        return _CONTENT.render(results=self._results, context=self._context, json=json.dumps)
