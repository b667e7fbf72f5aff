"""Fixtures of the core's tests."""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.certificate import make_certificate
from tests.core.wire_server import WireServer

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
OWN_VARIABLES = (
    "SHIPSILENTLY_API_KEY",
    "SHIPSILENTLY_KEY",
    "SHIPSILENTLY_API_URL",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is set on this machine has no part in a test."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name in OWN_VARIABLES:
        monkeypatch.delenv(name, raising=False)


class _Keeper(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """What the client logs, at every level."""
    keeper, log = _Keeper(), logging.getLogger("shipsilently")
    level = log.level
    log.addHandler(keeper)
    log.setLevel(logging.DEBUG)
    yield keeper.records
    log.setLevel(level)
    log.removeHandler(keeper)


@pytest.fixture
def server() -> Iterator[WireServer]:
    """A scripted server; say what it answers with `always` or `on`."""
    with WireServer() as running:
        yield running


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 that nobody trusts, with its key, in one PEM file."""
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.write_text(make_certificate(), encoding="ascii")
    return path


@pytest.fixture
def tls_server(certificate: Path) -> Iterator[WireServer]:
    """A scripted server behind TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with WireServer(context=context) as running:
        yield running
