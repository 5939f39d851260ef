"""How long credentials live, and what their life is long enough for."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

ALERT_BELOW = timedelta(hours=12)
NO_SUBMISSION_BELOW = timedelta(hours=2)
_PEM = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)
_MEMBERSHIP = re.compile(
    # 1.3.6.1.4.1.8005.100.100.5, and in what follows the first period, whose times have the long form.
    rb"\x06\x0a\x2b\x06\x01\x04\x01\xbe\x45\x64\x64\x05.*?\x30\x22\x18\x0f[0-9]{14}Z\x18\x0f([0-9]{14})Z",
    re.DOTALL,
)
_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
_BEFORE_VALIDITY = 3
"""Serial number, algorithm and issuer."""


class HeldCredential(NamedTuple):
    """A credential of jobs as it is on a submit host now."""

    name: str
    """What it is, with where it comes from: for people."""
    ends_at: datetime | None
    """None when there is none that could be used."""
    problem: str = ""
    """Why its renewal could not be taken over."""
    kind: str = "proxy"
    """`proxy` or `token`: for programs."""


def proxy_end(text: bytes) -> datetime:
    """When a proxy is over: when the first of the certificates in its file is, or what VOMS said of its owner.

    ValueError for what holds none.
    """
    certificates = [base64.b64decode(b"".join(body.split())) for body in _PEM.findall(text)]
    if not certificates:
        raise ValueError("it holds no certificate")
    memberships = [found[1] for found in map(_MEMBERSHIP.search, certificates) if found]
    return min([*map(_certificate_end, certificates), *map(_moment, memberships)])


def token_end(text: bytes) -> datetime:
    """When a token is over, as it says itself: a JSON Web Token, whose signature is left to others."""
    try:
        _, claims, _ = text.strip().split(b".")
        end = json.loads(base64.urlsafe_b64decode(claims + b"=" * (-len(claims) % 4)))["exp"]
        return datetime.fromtimestamp(end, UTC)
    except (ValueError, KeyError, TypeError, OverflowError, OSError, binascii.Error):
        raise ValueError("it is no JSON Web Token with an end") from None


def low_life(held: HeldCredential, now: datetime) -> str:
    """What operators should know of a credential; empty while it lives long enough."""
    why = f"; {held.problem}" if held.problem else ""
    if held.ends_at is None:
        return f"cannot be used, nothing is submitted{why}"
    if held.ends_at - now >= ALERT_BELOW:
        return ""
    stopped = "nothing is submitted" if held.ends_at - now < NO_SUBMISSION_BELOW else "it should be renewed"
    return f"{_end(held.ends_at, now)}, {stopped}{why}"


def no_submission(credentials: Iterable[HeldCredential], now: datetime) -> str:
    """Why no DAG may be submitted with these, in a sentence; empty when one may."""
    for held in credentials:
        if held.ends_at is None or held.ends_at - now < NO_SUBMISSION_BELOW:
            return f"{held.name} {low_life(held, now)}; look after the program that renews it"
    return ""


def _end(ends_at: datetime, now: datetime) -> str:
    minutes = int((ends_at - now).total_seconds() // 60)
    left = f"in {minutes // 60} h {minutes % 60} min" if minutes >= 0 else "already"
    return f"ends {left}, at {ends_at:%Y-%m-%d %H:%M} UTC"


def _certificate_end(der: bytes) -> datetime:
    """The end of the validity of an X.509 certificate, whose first parts come in a fixed order."""
    try:
        _, certificate, _ = _element(der)
        _, rest, _ = _element(certificate)
        if rest[0] == _VERSION:
            _, _, rest = _element(rest)
        for _ in range(_BEFORE_VALIDITY):
            _, _, rest = _element(rest)
        kind, validity, _ = _element(rest)
        _, _, rest = _element(validity)
        form, end, _ = _element(rest)
    except IndexError:
        raise ValueError("its certificate is cut off") from None
    if kind != _SEQUENCE or form not in (_UTC_TIME, _GENERALIZED_TIME):
        raise ValueError("its certificate has no validity")
    if form == _UTC_TIME:
        # Two digits of the year, which stand for 1950 to 2049.
        end = (b"19" if end >= b"5" else b"20") + end
    return _moment(end.removesuffix(b"Z"))


def _moment(digits: bytes) -> datetime:
    return datetime.strptime(digits.decode("ascii"), "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _element(der: bytes) -> tuple[int, bytes, bytes]:
    """The first element: its kind and its content; and what follows it."""
    length, start = der[1], 2
    if length & 0x80:
        start += length & 0x7F
        length = int.from_bytes(der[2:start])
    if len(der) < start + length:
        raise IndexError
    return der[0], der[start : start + length], der[start + length :]
