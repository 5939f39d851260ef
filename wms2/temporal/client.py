"""The client: how everything in WMS2 reaches Temporal."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from temporalio.client import Client
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import Runtime
from temporalio.service import TLSConfig

from wms2.config import Settings
from wms2.errors import Silent, UserError
from wms2.temporal.runtime import sdk_runtime
from wms2.temporal.tracing import tracing

CONNECT_TIMEOUT = timedelta(seconds=10)
START_TIMEOUT = timedelta(seconds=15)
"""For the server to take note of a workflow that is to start."""


async def connect(settings: Settings, runtime: Runtime | None = None) -> Client:
    """A client that is connected; Silent when the server does not answer, or does not let it in."""
    address = settings.needed("temporal_address")
    tls, key = tls_config(settings), api_key(settings)
    try:
        return await Client.connect(
            address,
            namespace=settings.temporal_namespace,
            data_converter=pydantic_data_converter,
            connect_timeout=CONNECT_TIMEOUT,
            runtime=runtime or sdk_runtime(),
            interceptors=[tracing(settings.traces_url)] if settings.traces_url else [],
            tls=tls or False,
            api_key=key,
        )
    except RuntimeError as error:
        raise Silent(_unanswered(address, encrypted=tls is not None)) from error


def tls_config(settings: Settings) -> TLSConfig | None:
    """How the connection is encrypted: always where there is a secret to send, else where a setting asks for it."""
    certificate = _read(settings.temporal_tls_cert, "WMS2_TEMPORAL_TLS_CERT")
    authority = _read(settings.temporal_tls_ca, "WMS2_TEMPORAL_TLS_CA")
    key = _read(settings.temporal_tls_key, "WMS2_TEMPORAL_TLS_KEY")
    if key and not certificate:
        raise UserError(
            "WMS2_TEMPORAL_TLS_KEY is the key of no certificate: set WMS2_TEMPORAL_TLS_CERT, too."
        )
    asked = certificate or authority or settings.temporal_server_name or api_key(settings)
    if not asked:
        return None
    return TLSConfig(
        server_root_ca_cert=authority,
        domain=settings.temporal_server_name,
        client_cert=certificate,
        client_private_key=key or certificate,
    )


def api_key(settings: Settings) -> str | None:
    if settings.temporal_api_key is not None:
        return settings.temporal_api_key.get_secret_value()
    found = _read(settings.temporal_api_key_file, "WMS2_TEMPORAL_API_KEY_FILE")
    try:
        return found.decode("ascii").strip() if found else None
    except UnicodeDecodeError:
        raise UserError("WMS2_TEMPORAL_API_KEY_FILE holds no API key: it is no plain text.") from None


def _read(path: Path | None, setting: str) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{setting}: {path} cannot be read: {error.strerror}.") from None


def _unanswered(address: str, *, encrypted: bool) -> str:
    if encrypted:
        return (
            f"Temporal at {address} does not answer, or certificate, key and server name do not fit: "
            "look at the WMS2_TEMPORAL_ settings"
        )
    return f"Temporal does not answer at {address}; `wms2 status` shows the stack, `wms2 up` starts it"
