"""The subject of a certificate in one spelling, /DC=ch/DC=cern/CN=Name, whoever wrote it down."""

from __future__ import annotations

import re
from collections.abc import Sequence

from cryptography import x509
from cryptography.x509.oid import NameOID

from wms2.patterns import DISTINGUISHED_NAME

LONGEST = 200
"""The audit trail holds no longer names, and to cut them would make two people one."""
_SHORT = {
    NameOID.EMAIL_ADDRESS: "emailAddress",
    NameOID.USER_ID: "UID",
    NameOID.SERIAL_NUMBER: "serialNumber",
}
_LONG = {"emailAddress": NameOID.EMAIL_ADDRESS, "serialNumber": NameOID.SERIAL_NUMBER}
"""As nginx writes them."""
_PROXY_INFO = x509.ObjectIdentifier("1.3.6.1.5.5.7.1.14")
_ALL_RIGHTS = re.compile(
    rb"\x30.(?:\x02(?:\x01.|\x02..))?\x30\x0a\x06\x08\x2b\x06\x01\x05\x05\x07\x15\x01", re.DOTALL
)
"""What a proxy says that may do all that its owner may: perhaps how many may follow it, and id-ppl-inheritAll."""


def subject_of(chain: Sequence[bytes]) -> str | None:
    """Whose certificate it is, in DER, with those that vouch for it; None where that cannot be told without doubt.

    A proxy stands for its owner, unless it or one between them is limited.
    """
    for certificate in map(x509.load_der_x509_certificate, chain):
        said = [one.value for one in certificate.extensions if one.oid == _PROXY_INFO]
        if not said:
            return _slashes(certificate.subject)
        if not all(
            isinstance(one, x509.UnrecognizedExtension) and _ALL_RIGHTS.fullmatch(one.value) for one in said
        ):
            return None
    return None


def spelled(text: str) -> str | None:
    """A subject as a front end spells it: with slashes, or with commas from its end. None for anything else."""
    if text.startswith("/"):
        return _sound(text)
    try:
        return _slashes(x509.Name.from_rfc4514_string(text, _LONG))
    except ValueError:
        return None


def _slashes(name: x509.Name) -> str | None:
    parts = []
    for part in name.rdns:
        for attribute in part:
            value = attribute.value
            if not isinstance(value, str) or "/" in value:
                # A slash would let one name pass for another.
                return None
            parts.append(f"/{_SHORT.get(attribute.oid) or attribute.rfc4514_attribute_name}={value}")
    return _sound("".join(parts))


def _sound(subject: str) -> str | None:
    fits = len(subject) <= LONGEST and subject.isprintable() and DISTINGUISHED_NAME.fullmatch(subject)
    return subject if fits else None
