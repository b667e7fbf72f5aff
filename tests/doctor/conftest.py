"""Environments without anything of the person who runs the tests, and certificates."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from shipsilently_local import LocalService
from tests.core.certificate import make_certificate
from tests.core.wire_server import WireServer

from .setups import FLAGS

VARIABLES = (
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
    *("SHIPSILENTLY_API_KEY", "SHIPSILENTLY_KEY", "SHIPSILENTLY_API_URL"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "GUNICORN_CMD_ARGS"),
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def service() -> Iterator[LocalService]:
    """The local service with quick heartbeats."""
    with LocalService(FLAGS, heartbeat=0.1) as running:
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
