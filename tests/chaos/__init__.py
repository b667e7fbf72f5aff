"""An adversary between client and service: ``make chaos``.

To be read in this order: `wire` (one connection, and what can be done to it), `service` (the
truthful service), `adversary` (what stands between), `toxics` and `faults` (what it does),
`ledger` (what must hold), `load` (threads and tasks that read), `subject` (the process under
test), `trial` (one fault from begin to end), `__main__` (all of them, as a table).
"""
