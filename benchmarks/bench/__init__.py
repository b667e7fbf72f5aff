"""What it costs, measured against what people would use instead: ``make bench``.

The modules, in the order to read them: `registry` (every measurement), `outcome` (figures and
goals, as values), `timing` (turns, medians, ratios), `peers` (the others, fed offline), `sites`
(small apps of each framework), `loopback` (a service in a process of its own), then one module
per measurement, `results` (the table and ``results.md``), `causes` (of what is missed), `page`
(the manual's tables) and `__main__` (the command).
"""
