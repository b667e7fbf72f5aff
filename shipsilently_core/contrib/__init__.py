"""What the client knows, where people look: each module for one tool.

`opentelemetry` (span events and metrics), `prometheus` (a collector), `sentry` (flags
beside an error), `logs` (flags beside a log line, for `logging` and structlog), `health`
(what a health check answers). The first three import the tool that they are named after.
None of them hands on anything of a context: they see flags and counts.

Most of them are receivers of `shipsilently_core.signals.flag_evaluated`; behind them is
`_shared`. `jinja` is another thing: the tag that the integrations put into templates; and so is
`browser`: which flags may leave the server.
Nothing of this is imported by the core itself.
"""
