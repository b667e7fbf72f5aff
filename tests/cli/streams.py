"""How a runner of click's is to keep standard error apart from standard output."""

from importlib.metadata import version
from typing import Any

__all__ = ["APART"]

#: What such a runner is made with. From click 8.2 on it does so by itself, and is not to be told.
APART: dict[str, Any] = (
    {"mix_stderr": False} if tuple(map(int, version("click").split(".")[:2])) < (8, 2) else {}
)
