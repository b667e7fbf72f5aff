"""Certificates for 127.0.0.1, made without any tool or library.

They are written as ASN.1 in DER by hand, which is short since only two kinds are
needed. The key is made anew for each run, so none is kept in a file.
"""

from __future__ import annotations

import base64
import hashlib
import math
import secrets
from datetime import UTC, datetime

__all__ = ["Authority", "make_certificate"]

_BITS = 2048
_EXPONENT = 65537
#: What rules out most candidates for a prime at little cost.
_SMALL_FACTORS = math.prod(range(3, 2_000, 2))
_FOR_GOOD = datetime(2120, 1, 1, tzinfo=UTC)


def make_certificate() -> str:
    """The private key and the certificate as PEM."""
    return Authority().certificate()


class Authority:
    """One key, with a certificate that vouches for itself and for others of the same key."""

    def __init__(self) -> None:
        p, q = _prime(_BITS // 2), _prime(_BITS // 2)
        self._n, self._d = n, d = p * q, pow(_EXPONENT, -1, (p - 1) * (q - 1))
        private = [0, n, _EXPONENT, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p)]
        self._key = _pem("RSA PRIVATE KEY", _sequence(*(_integer(number) for number in private)))
        self._public = _sequence(
            _sequence(_oid("2a864886f70d010101"), _null()),
            _bits(_sequence(_integer(n), _integer(_EXPONENT))),
        )

    def certificate(self) -> str:
        """The private key and the certificate that is to be trusted, as PEM."""
        true = _tlv(0x01, b"\xff")
        extensions = (
            _sequence(_oid("551d13"), true, _octets(_sequence(true))),  # basicConstraints: a CA
            _sequence(_oid("551d0f"), true, _octets(_tlv(0x03, b"\x02\x84"))),  # keyUsage
        )
        return self._key + self._signed(_NAME, extensions, _FOR_GOOD)

    def leaf(self, until: datetime = _FOR_GOOD) -> str:
        """The private key and a certificate that rests on the trusted one, as PEM."""
        issuer = _sequence(_tlv(0x80, self._identifier()))
        extensions = (_sequence(_oid("551d23"), _octets(issuer)),)  # authorityKeyIdentifier
        return self._key + self._signed(_name(b"leaf"), extensions, until)

    def _identifier(self) -> bytes:
        return hashlib.sha256(self._public).digest()[:20]

    def _signed(self, subject: bytes, extensions: tuple[bytes, ...], until: datetime) -> str:
        algorithm = _sequence(_oid("2a864886f70d01010b"), _null())  # sha256WithRSAEncryption
        end = until.astimezone(UTC).strftime("%Y%m%d%H%M%SZ").encode()
        names = _sequence(_tlv(0x87, bytes([127, 0, 0, 1])), _tlv(0x82, b"localhost"))
        # What strict verification wants of a certificate that vouches for itself.
        common = (
            _sequence(_oid("551d0e"), _octets(_octets(self._identifier()))),  # subjectKeyIdentifier
            _sequence(_oid("551d11"), _octets(names)),  # subjectAltName
        )
        body = _sequence(
            _tlv(0xA0, _integer(2)),
            _integer(secrets.randbits(120) | 1),
            algorithm,
            _NAME,
            _sequence(_tlv(0x18, b"20200101000000Z"), _tlv(0x18, end)),
            subject,
            self._public,
            _tlv(0xA3, _sequence(*extensions, *common)),
        )
        signature = _bits(_signature(body, self._n, self._d))
        return _pem("CERTIFICATE", _sequence(body, algorithm, signature))


def _signature(message: bytes, n: int, d: int) -> bytes:
    digest = hashlib.sha256(message).digest()
    info = _sequence(_sequence(_oid("608648016503040201"), _null()), _octets(digest))
    size = _BITS // 8
    padded = b"\x00\x01" + b"\xff" * (size - len(info) - 3) + b"\x00" + info
    return pow(int.from_bytes(padded, "big"), d, n).to_bytes(size, "big")


def _prime(bits: int) -> int:
    while True:
        # The two highest bits are set, so that the product of two has its full length.
        candidate = secrets.randbits(bits) | (0b11 << (bits - 2)) | 1
        if (
            math.gcd(candidate, _SMALL_FACTORS) == 1
            and candidate % _EXPONENT != 1
            and all(pow(b, candidate - 1, candidate) == 1 for b in (2, 3))
        ):
            return candidate


def _tlv(tag: int, content: bytes) -> bytes:
    length = len(content)
    if length < 128:
        return bytes([tag, length]) + content
    size = length.to_bytes((length.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(size)]) + size + content


def _sequence(*parts: bytes) -> bytes:
    return _tlv(0x30, b"".join(parts))


def _integer(number: int) -> bytes:
    return _tlv(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _oid(hexadecimal: str) -> bytes:
    return _tlv(0x06, bytes.fromhex(hexadecimal))


def _octets(content: bytes) -> bytes:
    return _tlv(0x04, content)


def _bits(content: bytes) -> bytes:
    return _tlv(0x03, b"\x00" + content)


def _null() -> bytes:
    return b"\x05\x00"


def _name(common: bytes) -> bytes:
    return _sequence(_tlv(0x31, _sequence(_oid("550403"), _tlv(0x0C, common))))


def _pem(label: str, content: bytes) -> str:
    text = base64.encodebytes(content).decode()
    return f"-----BEGIN {label}-----\n{text}-----END {label}-----\n"


_NAME = _name(b"scripted")
