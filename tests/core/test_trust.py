"""Whom a connection trusts, and that httpx, which takes long to import, is not needed for it."""

import ssl
import subprocess
import sys
from pathlib import Path

import certifi
import httpx
import pytest

from shipsilently_core._network import Route

MADE = """
import sys
from shipsilently_core import ShipSilentlyClient
from shipsilently_core._http import HttpTransport
client = ShipSilentlyClient(api_key="sk_test", api_url="https://127.0.0.1:9", background=False)
HttpTransport(client.config)
client.evaluate_all()
print(sorted({"httpx", "rich", "click", "pygments"} & set(sys.modules)))
"""


def trusted(context: ssl.SSLContext) -> set[str]:
    """The subjects whom a context trusts."""
    return {str(authority["subject"]) for authority in context.get_ca_certs()}


def made() -> ssl.SSLContext:
    """The context of a connection to a service by https."""
    route = Route("https://flags.invalid")
    route.load()
    context = route._ssl
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    return context


@pytest.mark.parametrize("variable", ["", "SSL_CERT_FILE", "SSL_CERT_DIR"])
def test_a_connection_trusts_whom_httpx_would(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """certifi's authorities, or those of the file or the folder that the environment names."""
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    if variable == "SSL_CERT_FILE":
        text = Path(certifi.where()).read_text(encoding="utf-8")
        file = tmp_path / "few.pem"
        file.write_text("".join(text.partition("-----END CERTIFICATE-----")[:2]) + "\n")
        monkeypatch.setenv(variable, str(file))
    elif variable == "SSL_CERT_DIR":
        monkeypatch.setenv(variable, str(tmp_path))
    known = trusted(made())
    assert known == trusted(httpx.create_ssl_context())
    few = {"": range(50, 1000), "SSL_CERT_FILE": (1,), "SSL_CERT_DIR": (0,)}
    assert len(known) in few[variable]


def test_calls_by_https_need_neither_httpx_nor_what_it_brings() -> None:
    """A process without a proxy never imports httpx, whose command line brings terminals along."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", MADE],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[]\n"
