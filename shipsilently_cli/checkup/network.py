"""From here to the service's port: proxy, name, connection, TLS."""

from __future__ import annotations

import base64
import importlib.util
import os
import socket
import ssl
import time
from collections.abc import Generator
from contextlib import closing
from urllib.parse import urlsplit

import httpx

from shipsilently_core import Config
from shipsilently_core._network import ConnectError, ConnectTimeout, Route, UnusableProxy, resolve

from .findings import Checks, Finding, failure, ok, skipped, warning
from .session import Session, seconds

__all__ = ["check", "distrusted"]

#: Seconds before its end at which a certificate is worth a word.
_SOON = 14 * 24 * 3600
_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
#: Bytes; an answer to CONNECT that is longer has no end.
_LONGEST_HEAD = 64 * 1024

_PROXY_VARIABLES = "Correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY, or name the host in NO_PROXY."

#: OpenSSL's codes.
_WRONG_NAME = {62, 64}
_UNTRUSTED = {18, 19, 20, 21}
_NOT_NOW = {9, 10}


def check(session: Session) -> Checks:
    """Whether the service's port can be reached, step by step."""
    config = session.config
    if config.http_client is not None:
        for name in ("proxy", "dns", "tcp", "tls"):
            yield skipped(name, "the way of your own http_client is its own matter")
        return True
    parts = urlsplit(config.api_url)
    host, scheme = parts.hostname or "", parts.scheme
    port = parts.port or _PORTS[scheme]
    try:
        proxy = Route(config.api_url).proxy()
    except UnusableProxy:
        yield failure(
            "proxy",
            "the environment names a proxy whose address cannot be used",
            _PROXY_VARIABLES,
        )
        return False
    if proxy is None:
        yield ok("proxy", "none")
        target, target_port = host, port
    else:
        session.proxied = True
        kind = proxy.url.scheme
        target, target_port = proxy.url.host, proxy.url.port or _PORTS.get(kind, 80)
        if kind.startswith("socks") and importlib.util.find_spec("socksio") is None:
            yield failure(
                "proxy",
                "the environment names a SOCKS proxy, which httpx cannot use as installed",
                "Install what it needs:  pip install 'httpx[socks]'",
            )
            return False
        yield ok("proxy", f"{kind}://{_place(target, target_port)}, from the environment")
    whose = "the proxy" if proxy is not None else "the service"
    found = yield from _dns(target, target_port, config.timeout, whose)
    if not found:
        return False
    sock = yield from _tcp(target, target_port, config, whose)
    if sock is None:
        return False
    with closing(sock):
        if scheme == "http":
            yield ok("tls", "not in use: the address begins with http://")
            return True
        if proxy is not None and proxy.url.scheme != "http":
            yield skipped("tls", f"not looked at by itself behind a proxy of {proxy.url.scheme}")
            return True
        if proxy is not None:
            refusal = _tunnel(sock, host, port, proxy)
            if refusal is not None:
                yield refusal
                return False
        return (yield from _tls(sock, host, config.timeout))


def _dns(host: str, port: int, timeout: float, whose: str) -> Checks:
    begin = time.perf_counter()
    try:
        addresses = resolve(host, port, timeout)
    except ConnectTimeout:
        yield failure(
            "dns",
            f"{host} was not resolved within {seconds(timeout)}",
            "The name server does not answer: look at /etc/resolv.conf and the network.",
        )
        return False
    except ConnectError:
        yield failure(
            "dns",
            f"the name of {whose}, {host}, has no address",
            "Correct api_url if it is misspelt; else look at this machine's name server."
            if whose == "the service"
            else _PROXY_VARIABLES,
        )
        return False
    took = seconds(time.perf_counter() - begin)
    if addresses == [host]:
        yield ok("dns", f"{host} is an address")
    else:
        yield ok("dns", f"{host} is {', '.join(addresses)} ({took})")
    return True


def _tcp(
    host: str, port: int, config: Config, whose: str
) -> Generator[Finding, None, socket.socket | None]:
    begin = time.perf_counter()
    where = _place(host, port)
    try:
        sock = socket.create_connection((host, port), timeout=config.timeout)
    except ConnectionRefusedError:
        yield failure(
            "tcp",
            f"{whose} refuses connections at {where}",
            "Nothing listens there: correct the port, or start it."
            if whose == "the service"
            else f"The proxy is not running there. {_PROXY_VARIABLES}",
        )
    except TimeoutError:
        yield failure(
            "tcp",
            f"no connection to {whose} at {where} within {seconds(config.timeout)}",
            "A firewall swallows it: allow outgoing connections, or set the proxy to use.",
        )
    except OSError as error:
        yield failure(
            "tcp",
            f"no connection to {whose} at {where}: {error.strerror or type(error).__name__}",
            "Look at this machine's network and routes.",
        )
    else:
        yield ok("tcp", f"connected to {where} in {seconds(time.perf_counter() - begin)}")
        return sock
    return None


def _place(host: str, port: int) -> str:
    """Both as in a URL, where the address of a host may have colons of its own."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _tunnel(sock: socket.socket, host: str, port: int, proxy: httpx.Proxy) -> Finding | None:
    """Ask a proxy for a way through; what is wrong with its answer."""
    place = _place(host, port)
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.raw_auth is not None:
        user = base64.b64encode(b":".join(proxy.raw_auth)).decode()
        lines.append(f"Proxy-Authorization: Basic {user}")
    head = b""
    try:
        sock.sendall("\r\n".join([*lines, "", ""]).encode())
        while b"\r\n\r\n" not in head and len(head) < _LONGEST_HEAD:
            chunk = sock.recv(4096)
            if not chunk:
                break
            head += chunk
    except TimeoutError:
        return failure(
            "proxy",
            "the proxy accepted the connection and did not answer",
            f"Look at the proxy. {_PROXY_VARIABLES}",
        )
    except OSError:
        head = b""
    words = head.split(b" ", 2)
    status = words[1].decode("ascii", "replace") if len(words) > 2 else ""
    if status == "407":
        return failure(
            "proxy",
            "the proxy wants a user and a password (HTTP 407)",
            "Write them into the variable: http://user:password@proxy:port.",
        )
    if not status.isdigit():
        return failure(
            "proxy",
            "the proxy's port does not speak as a proxy does",
            _PROXY_VARIABLES,
        )
    if not status.startswith("2"):
        return failure(
            "proxy",
            f"the proxy refuses the way to {place} (HTTP {status})",
            f"Have {host} allowed on the proxy, or name it in NO_PROXY.",
        )
    return None


def _tls(sock: socket.socket, host: str, timeout: float) -> Checks:
    store = _trust_store()
    try:
        context = httpx.create_ssl_context()
    except OSError:
        yield failure(
            "tls",
            f"the certificates of {store} cannot be read",
            "Correct that variable, or unset it to use the list that comes with certifi.",
        )
        return False
    try:
        with context.wrap_socket(sock, server_hostname=host) as secure:
            certificate = secure.getpeercert() or {}
            version = secure.version() or "TLS"
    except ssl.SSLCertVerificationError as error:
        yield distrusted(error, host, store)
        return False
    except TimeoutError:
        yield failure(
            "tls",
            f"the handshake was not finished within {seconds(timeout)}",
            "Something accepts connections and then says nothing: a firewall, or a hung server.",
        )
        return False
    except OSError:
        yield failure(
            "tls",
            "the handshake failed: what answers there does not speak TLS as it should",
            "Look at the port in api_url, and at what terminates TLS there.",
        )
        return False
    left = ssl.cert_time_to_seconds(str(certificate["notAfter"])) - time.time()
    text = f"{version}, certificate of {host} good for {left / 86400:.0f} days, trusted by {store}"
    if left < _SOON:
        yield warning("tls", text, "Renew the certificate before it ends.")
    else:
        yield ok("tls", text)
    return True


def _trust_store() -> str:
    for variable in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        if os.environ.get(variable):
            return variable
    return "certifi's list"


def distrusted(error: ssl.SSLCertVerificationError, host: str, store: str) -> Finding:
    """What is wrong with a certificate, in words."""
    if error.verify_code in _WRONG_NAME:
        return failure(
            "tls",
            f"the certificate is for another name than {host}",
            "Write the name that the certificate is for into api_url.",
        )
    if error.verify_code in _NOT_NOW:
        return failure(
            "tls",
            f"the certificate of {host} is not valid today: {error.verify_message}",
            "Renew it; or set this machine's clock, if that is wrong.",
        )
    if error.verify_code in _UNTRUSTED:
        return failure(
            "tls",
            f"the certificate of {host} is not trusted by {store}: {error.verify_message}",
            "If a proxy of your own inspects TLS, name its authority's file in SSL_CERT_FILE.",
        )
    return failure(
        "tls",
        f"the certificate of {host} was not accepted: {error.verify_message}",
        "Have the certificate issued anew.",
    )
