"""The exceptions, and when they are raised.

::

    ShipSilentlyError
    ├── ConfigurationError (also a ValueError)   while configuring, never on a request
    ├── EvaluationError                          only with ``disable_cache=True``
    └── ClientClosedError                        starting what has been closed
"""

from __future__ import annotations

from .values import Failure

__all__ = ["ClientClosedError", "ConfigurationError", "EvaluationError", "ShipSilentlyError"]


class ShipSilentlyError(Exception):
    """The root of every exception that this package raises."""


class ConfigurationError(ShipSilentlyError, ValueError):
    """A setting is missing or wrong.

    Attributes:
        setting: The name of the setting, as it is spelt in `Config`.
        problem: What is wrong with it and what to do, without its value.
    """

    def __init__(self, setting: str, problem: str) -> None:
        self.setting = setting
        self.problem = problem
        super().__init__(f"{setting}: {problem}")

    def __reduce__(self) -> tuple[type[ConfigurationError], tuple[str, str]]:
        return type(self), (self.setting, self.problem)


class EvaluationError(ShipSilentlyError):
    """An evaluation failed and the cache is switched off.

    Attributes:
        failure: The class of the failure.
        status: The HTTP status, where there was an answer.
        flag_key: The flag that was asked for; ``None`` for a whole batch.
    """

    def __init__(self, failure: Failure, status: int | None, flag_key: str | None) -> None:
        self.failure = failure
        self.status = status
        self.flag_key = flag_key
        what = "all flags" if flag_key is None else f"flag {flag_key!r}"
        answer = "" if status is None else f" (HTTP {status})"
        super().__init__(f"could not evaluate {what}: {failure}{answer}")

    def __reduce__(self) -> tuple[type[EvaluationError], tuple[Failure, int | None, str | None]]:
        return type(self), (self.failure, self.status, self.flag_key)


class ClientClosedError(ShipSilentlyError):
    """The client has been closed; make a new one."""
