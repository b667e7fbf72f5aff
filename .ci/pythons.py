"""The Pythons of this machine that the wheel is tested on."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["pythons"]

_USABLE = """
import json, sys
import venv
print(json.dumps([sys.version_info[:2], sys.version_info >= (3, 11)]))
"""


def pythons() -> dict[str, str]:
    """One usable interpreter per minor version, this one first, as `.ci/run` finds them."""
    found: dict[str, str] = {}
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    candidates = [sys.executable, *map(str, sorted(versions.glob("3.*/bin/python")))]
    candidates += [path for n in range(11, 30) if (path := shutil.which(f"python3.{n}"))]
    for candidate in candidates:
        answer = subprocess.run(
            [candidate, "-c", _USABLE], capture_output=True, text=True, check=False
        )
        if answer.returncode:
            continue
        (major, minor), usable = json.loads(answer.stdout)
        if usable:
            found.setdefault(f"{major}.{minor}", candidate)
    return found
