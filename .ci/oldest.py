"""Print constraints.txt with the oldest versions that pyproject.toml allows of what users install.

What only the tests need stays pinned as it is. `make pytest OLDEST=1` installs with the outcome.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: The extras of those who work on the project.
OWN_EXTRAS = {"test", "browser", "dev"}
BOUND = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)>=(?P<version>[0-9][\w.]*)")
#: Where a neighbour asks for more than the bound: the oldest FastAPI that is allowed does.
HIGHER = {"opentelemetry-api": "1.44"}
#: What the oldest versions stand on, at the oldest that they allow; of anyio, that httpx2 allows.
BENEATH = {"anyio": "4.10", "asgiref": "3.8.1", "pydantic": "2.9", "Werkzeug": "3.1"}
#: Each goes with one version of what is named above, which says so itself.
FOLLOWING = {"opentelemetry-sdk", "opentelemetry-semantic-conventions", "pydantic_core"}


def normalized(name: str) -> str:
    """The name as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def bounds() -> Iterator[tuple[str, str]]:
    """Name and oldest version of every requirement of the distribution and its users' extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    used = [lines for extra, lines in extras.items() if extra not in OWN_EXTRAS]
    for line in sum(used, project["dependencies"]):
        match = BOUND.fullmatch(line)
        if not match:
            sys.exit(f"pyproject.toml requires {line!r}, expected NAME>=VERSION")
        yield match["name"], match["version"]


def main() -> None:
    """Print one line for each name, the oldest versions last."""
    oldest = {**dict(bounds()), **HIGHER, **BENEATH}
    replaced = {normalized(name) for name in {*oldest, *FOLLOWING}}
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines():
        if normalized(line.partition("==")[0]) not in replaced:
            print(line)
    for name, version in oldest.items():
        print(f"{name}=={version}")


if __name__ == "__main__":
    main()
