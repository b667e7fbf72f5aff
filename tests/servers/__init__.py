"""The life of a process, proven under the servers that people run.

The modules, in the order to read them: `harness` (a server as a process of its own),
`checks` (what is proven of each), `apps` (the sites they serve), then the tests.
"""
