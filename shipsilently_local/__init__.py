"""ShipSilently on your own machine: the same wire protocol, flags from a file, faults on demand.

    from shipsilently_local import LocalService

    with LocalService({"new-checkout": False}) as service:
        ...  # point a client at service.url with service.key

The modules, in the order to read them:

- `document`: what a flags file says, as types; `schema`: the same as a JSON Schema
- `errors`: what can go wrong
- `flagsfile`: TOML, YAML and JSON, read and written (`_yaml`, `_checks`)
- `evaluation`: what a flag is for a context
- `bodies`: request bodies, checked
- `tickets`, `streams`: the event stream
- `faults`: what is to go wrong; `exchange`, `sabotage`: making it happen
- `state`: everything the service knows while it runs
- `frontdoor`, `app`: from a request to an answer
- `source`, `watcher`: the flags file while it is edited
- `runner`, `service`: the whole, running in a thread
"""

from __future__ import annotations

from .errors import (
    BadRequestError,
    FaultError,
    FlagsFileError,
    LocalServiceError,
    Place,
    PortInUseError,
)
from .faults import Fault
from .service import LocalService
from .state import RecordedRequest

__all__ = [
    "BadRequestError",
    "Fault",
    "FaultError",
    "FlagsFileError",
    "LocalService",
    "LocalServiceError",
    "Place",
    "PortInUseError",
    "RecordedRequest",
]
