"""``shipsilently evaluate``: one flag, asked from a shell."""

from __future__ import annotations

import json
from typing import Any

import click

from shipsilently_core import EvaluationError, EvaluationResult

from ._asking import app_option, client_of, context_option, fail, json_value, quiet_log
from ._failures import explain, explained, failures_of

__all__ = ["evaluate"]


@click.command()
@click.argument("key")
@context_option
@click.option(
    "--default",
    metavar="JSON",
    callback=json_value,
    help="What to serve if there is nothing better.",
)
@app_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def evaluate(
    key: str, context: dict[str, Any] | None, default: Any, app: str | None, as_json: bool
) -> None:
    """Evaluate the flag KEY with one call to the service.

    The key and the address come from SHIPSILENTLY_API_KEY and SHIPSILENTLY_API_URL.
    Ends with status 1 when nothing better than a default could be served.
    """
    quiet_log()
    client = client_of(app)
    given = () if default is None else (default,)
    try:
        with failures_of(client) as failures:
            result = client.evaluate_detail(key, context, *given)
    except EvaluationError as error:
        fail(explained(error))
    finally:
        client.close()
    click.echo(_document(result) if as_json else _line(result, failures))
    if result.error is not None:
        raise SystemExit(1)


def _document(result: EvaluationResult) -> str:
    document = {
        "flagKey": result.flag_key,
        "value": result.value,
        "reason": str(result.reason),
        "ruleId": result.rule_id,
        "source": str(result.source),
        "error": None if result.error is None else str(result.error),
    }
    return json.dumps(document, ensure_ascii=False, indent=2)


def _line(result: EvaluationResult, failures: list[str]) -> str:
    why = str(result.reason) + ("" if result.rule_id is None else f" {result.rule_id}")
    wrong = ""
    if result.error is not None:
        wrong = f": {failures[0] if failures else explain(result.error)}"
    value = json.dumps(result.value, ensure_ascii=False)
    return f"{value}  ({why}, from {result.source}{wrong})"
