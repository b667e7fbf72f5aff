"""Tests of the core client: one module per source module, and the faults as scenarios.

`wire_server` is a scripted service on a real socket, `support` holds what several
modules share.
"""
