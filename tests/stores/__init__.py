"""Stores that live outside the process, proven with real servers and real processes.

The modules, in the order to read them: `redis_server` (Redis as a process of its own), then the
tests: of the store alone, of its setups, of a client whose Redis has a bad day, of a fleet.
"""
