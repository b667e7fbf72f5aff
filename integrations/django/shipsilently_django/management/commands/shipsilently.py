"""``manage.py shipsilently``: what the service says, for whom you like; the rest beside it."""

from __future__ import annotations

import json
import logging
from argparse import SUPPRESS, ArgumentParser
from collections.abc import Iterable
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from shipsilently_cli._context import MistypedError, attributes_of
from shipsilently_cli._failures import explained, failures_of
from shipsilently_core import EvaluationError, EvaluationResult, ShipSilentlyClient
from shipsilently_django.management import doctor, snapshot, watch
from shipsilently_django.setup import get_client, get_setup
from shipsilently_django.users import UnknownUserError, context_of_user, find_user

__all__ = ["Command"]

log: logging.Logger = logging.getLogger("shipsilently")


class Command(BaseCommand):
    """Asks the service as the site does, with the site's own settings and context."""

    help = "Show flags as the service evaluates them, for a user or for a context."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """``list``, ``evaluate``, ``watch``, ``snapshot`` and ``doctor``."""
        subparsers = parser.add_subparsers(dest="verb", required=True)
        every = subparsers.add_parser("list", help="every flag of the environment")
        one = subparsers.add_parser("evaluate", help="one flag; fails where there is none")
        one.add_argument("key", help="the flag's key")
        followed = watch.add_parser(subparsers)
        for each in (every, one, followed, snapshot.add_parser(subparsers)):
            each.add_argument("--user", help="the name that this user logs in with")
            each.add_argument(
                "--context",
                "--attr",
                dest="context",
                nargs="+",
                action="extend",
                default=[],
                metavar="NAME=VALUE",
                help="more attributes; a value is JSON, or else a string. Or an object in JSON",
            )
        for each in (every, one, followed):
            each.add_argument("--json", action="store_true", help="print JSON")
        doctor.add_parser(subparsers)
        for each in subparsers.choices.values():
            self._add_djangos(each)

    def _add_djangos(self, parser: ArgumentParser) -> None:
        """Django's own options, which may stand behind the verb too, where people write them."""
        # What stands before it has been read by then, and is not to be forgotten again.
        absent: dict[str, Any] = {"default": SUPPRESS, "help": SUPPRESS}
        parser.add_argument("-v", "--verbosity", type=int, choices=range(4), **absent)
        for name in ("--settings", "--pythonpath"):
            parser.add_argument(name, **absent)
        for name in ("--traceback", "--no-color", "--force-color", "--skip-checks"):
            parser.add_argument(name, action="store_true", **absent)

    def handle(self, *args: Any, **options: Any) -> None:
        """Ask, and print.

        Raises:
            CommandError: There is no such user or flag, the site's hook makes no context for a
                user without a request, or the service did not answer.
        """
        as_json: bool = options.get("json", False)
        if options["verb"] == "doctor":
            doctor.run(self, quick=options["quick"], as_json=as_json)
            return
        client = get_client()
        if client.evaluator.closed:
            raise CommandError("this site asks no service: see SHIPSILENTLY in its settings")
        if options["verb"] == "snapshot":
            given = options["user"] or options["context"]
            # Otherwise the client's own, which stands for everybody.
            whose = self._whole_context(options) if given else None
            snapshot.run(self, client, whose, output=options["output"])
            return
        context = self._whole_context(options)
        if options["verb"] == "watch":
            watch.run(self, client, context, as_json=as_json, count=options["count"])
            return
        with failures_of(client) as failures:
            try:
                results = _ask(client, context, options.get("key"))
            except EvaluationError as error:
                raise CommandError(explained(error)) from None
        if failures:
            raise CommandError(failures[0])
        self._print(results, as_json=as_json)

    def _whole_context(self, options: dict[str, Any]) -> dict[str, Any]:
        name, given = options["user"], _attributes(options["context"])
        try:
            return {**_context(name), **given}
        except _NoContextError as error:
            if name is not None or not given:
                advice = "say whom for with --context, without --user"
                raise CommandError(f"{error}; {advice}") from None
            self.stderr.write(f"{error}; only what --context says is sent")
            return given

    def _print(self, results: Iterable[EvaluationResult], *, as_json: bool) -> None:
        rows = sorted(results, key=lambda result: result.flag_key)
        if as_json:
            plain = {
                row.flag_key: {"value": row.value, "reason": row.reason, "ruleId": row.rule_id}
                for row in rows
            }
            self.stdout.write(json.dumps(plain, indent=2, ensure_ascii=False))
            return
        table = [("FLAG", "VALUE", "REASON", "RULE")]
        table += [
            (
                row.flag_key,
                json.dumps(row.value, ensure_ascii=False),
                str(row.reason),
                row.rule_id or "",
            )
            for row in rows
        ]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        for line in table:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            self.stdout.write("  ".join(cells).rstrip())


def _ask(
    client: ShipSilentlyClient, context: dict[str, Any], key: str | None
) -> Iterable[EvaluationResult]:
    if key is None:
        return client.evaluate_all(context).values()
    return [client.evaluate_detail(key, context)]


class _NoContextError(Exception):
    """The site's hook needs more of a request than a command has."""


def _context(name: str | None) -> dict[str, Any]:
    try:
        user = find_user(name)
    except UnknownUserError as error:
        raise CommandError(str(error)) from None
    try:
        context: dict[str, Any] = json.loads(context_of_user(user).body)
    except Exception as error:
        hook: Any = get_setup().options.context
        if hook is None:
            raise
        log.debug("the context hook raised", exc_info=error)
        made_by = hook if hasattr(hook, "__qualname__") else type(hook)
        raise _NoContextError(
            f"the CONTEXT hook {made_by.__module__}.{made_by.__qualname__} made no context outside "
            f"of a request, where there is no session and no host ({type(error).__name__})"
        ) from None
    return context


def _attributes(words: list[str]) -> dict[str, Any]:
    try:
        return attributes_of(words)
    except MistypedError as error:
        raise CommandError(f"--context: {error}") from None
