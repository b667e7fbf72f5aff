"""The doctor: checks of a configuration and of the app around it, for every command line.

Behind ``shipsilently doctor``, ``manage.py shipsilently doctor`` and ``flask shipsilently
doctor``; it needs neither click nor rich. The modules, in the order to read them:

- `findings`: what one check found
- `subject`: what is examined
- `run`: the checks in their order: `examine`
- `settings`, `network`, `service`, `streaming`, `events`: from here to the service
- `checklist`, `keeping`, `sources`: the production checklist
- `report`: findings as lines and as JSON
"""

from __future__ import annotations

from .findings import Finding, Level, exit_code
from .report import print_report
from .run import examine
from .subject import Subject

__all__ = ["Finding", "Level", "Subject", "examine", "exit_code", "print_report"]
