"""Run the Python and template blocks of one page, in order and in one namespace.

Started by the tests as a process of its own, so that no page disturbs another:
`python page.py PAGE < blocks.json`. An error shows the page and its line.
"""

import ast
import asyncio
import inspect
import json
import linecache
import sys
import traceback
import types
from typing import Any


def run_python(source: str, page: str, line: int, module: types.ModuleType, loop: Any) -> None:
    """Execute one block, which may use `await` outside of functions."""
    padded = "\n" * line + source
    code = compile(padded, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    linecache.cache[page] = (len(padded), None, padded.splitlines(keepends=True), page)
    if code.co_flags & inspect.CO_COROUTINE:
        loop.run(types.FunctionType(code, module.__dict__)())
    else:
        exec(code, module.__dict__)


def compile_django_template(source: str) -> None:
    """Raises `TemplateSyntaxError` for an unknown tag or one that is not ended."""
    from django.template import Template

    Template(source)


def compile_jinja_template(source: str, app: Any) -> None:
    """Raises a Jinja error for wrong syntax; knows what the page's Flask app has added."""
    from jinja2 import Environment

    environment = getattr(app, "jinja_env", None) or Environment(autoescape=True)
    environment.from_string(source)


def main() -> None:
    """Run the page."""
    page = sys.argv[1]
    blocks = json.load(sys.stdin)
    if any("django" in block["language"] + block["source"] for block in blocks):
        import django

        django.setup()
    module = types.ModuleType("manual")
    sys.modules["manual"] = module
    with asyncio.Runner() as loop:
        for block in blocks:
            if block["language"] == "python":
                run_python(block["source"], page, block["line"], module, loop)
            elif block["language"] == "html+django":
                compile_django_template(block["source"])
            else:
                compile_jinja_template(block["source"], getattr(module, "app", None))
            print("ran", block["line"], flush=True)


if __name__ == "__main__":
    try:
        main()
    except BaseException:
        # The interpreter's own report does not know the lines of the page.
        traceback.print_exc()
        sys.exit(1)
