"""What the people who run the shop are told."""

import logging

from shipsilently_core import ConnectionState

log = logging.getLogger("shop")


def on_state_change(state: ConnectionState) -> None:
    """The connection to the flag service is up, lost, or replaced by polling."""
    log.warning("flags are %s now", state)
