"""Sentry: the flags that were read before an error happened, beside the error.

from shipsilently_core import signals
from shipsilently_core.contrib import sentry

signals.connect(signals.flag_evaluated, sentry.add_flag)
"""

from __future__ import annotations

from typing import Any

from sentry_sdk.feature_flags import add_feature_flag

from shipsilently_core.values import EvaluationResult

__all__ = ["add_flag"]


def add_flag(sender: Any, *, result: EvaluationResult) -> None:
    """Note a flag that was read in Sentry's scope; only booleans, as Sentry knows no others.

    A receiver of `shipsilently_core.signals.flag_evaluated`.
    """
    if isinstance(result.value, bool):
        add_feature_flag(result.flag_key, result.value)
