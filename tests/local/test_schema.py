"""The JSON Schema of the flags file."""

import subprocess
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from shipsilently_local.document import OPERATORS
from shipsilently_local.schema import render_schema, schema

from .samples import BAD, GOOD

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_shipped_file_is_the_generated_one() -> None:
    """``flags.schema.json`` says what the types say today."""
    shipped = files("shipsilently_local").joinpath("flags.schema.json").read_text(encoding="utf-8")
    assert shipped == render_schema()


def test_it_is_a_schema() -> None:
    """The schema follows the rules for schemas, and lists every operator."""
    Draft202012Validator.check_schema(schema())
    listed = schema()["$defs"]["Condition"]["properties"]["operator"]["enum"]
    assert sorted(listed) == sorted(OPERATORS)


@pytest.mark.parametrize("raw", GOOD)
def test_it_accepts_what_the_service_accepts(raw: Any) -> None:
    """A file that the service takes has no red line in an editor."""
    Draft202012Validator(schema()).validate(raw)


@pytest.mark.parametrize("raw", [raw for raw, _ in BAD])
def test_it_refuses_what_the_service_refuses(raw: Any) -> None:
    """A file that the service refuses has a red line in an editor."""
    assert not Draft202012Validator(schema()).is_valid(raw)


def test_the_module_prints_it() -> None:
    """Run as a module, it prints the schema and no warning."""
    command = [sys.executable, "-W", "error", "-m", "shipsilently_local.schema"]
    printed = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False
    )
    assert (printed.stdout, printed.stderr) == (render_schema(), "")
