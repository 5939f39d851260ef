"""The services of the settings: which URL, who we are there, how much of them we take.

Each is made once in a process, so that all requests share its connections and its limit. What other processes call as
well shares the limit with them by its `turns`.
"""

from __future__ import annotations

from dataclasses import dataclass

from wms2.adapters.credentials import Certificate, Password, TokenFile
from wms2.adapters.cric import Cric
from wms2.adapters.dbs import Dbs
from wms2.adapters.limits import RateLimit, SharedRateLimit, new_turns
from wms2.adapters.reqmgr2 import CONFIG_CACHE, ReqMgr2
from wms2.adapters.rucio import Rucio
from wms2.adapters.service import AT_ONCE
from wms2.config import Settings
from wms2.errors import UserError


@dataclass(frozen=True)
class Turns:
    """File descriptors by which a worker and the processes that it starts share the limits of services."""

    dbs: int
    rucio: int

    @classmethod
    def new(cls) -> Turns:
        return cls(new_turns(), new_turns())


def connect_dbs(settings: Settings, turns: Turns | None = None) -> Dbs:
    limit = _limit(settings.dbs_calls_per_sec, turns.dbs if turns else None)
    if settings.dbs_url is None:
        return Dbs(f"{settings.needed('services_url')}/dbs", limit=limit)
    return Dbs(settings.dbs_url, our_credentials(settings), limit)


def connect_rucio(settings: Settings, turns: Turns | None = None) -> Rucio:
    limit = _limit(settings.rucio_calls_per_sec, turns.rucio if turns else None)
    if settings.rucio_url is None:
        # The stand-in of the local stack, which guards nothing.
        password = settings.rucio_password or settings.rucio_account
        login = Password(settings.rucio_user or settings.rucio_account, password)
        url = f"{settings.needed('services_url')}/rucio"
        return Rucio(url, settings.rucio_account, login, settings.rucio_auth_url, limit)
    return Rucio(
        settings.rucio_url, settings.rucio_account, _rucio_login(settings), settings.rucio_auth_url, limit
    )


def connect_reqmgr2(settings: Settings) -> ReqMgr2:
    limit = RateLimit(settings.reqmgr2_calls_per_sec, AT_ONCE)
    if settings.reqmgr2_url is None:
        here = settings.needed("services_url")
        return ReqMgr2(f"{here}/reqmgr2", limit=limit, config_url=f"{here}/{CONFIG_CACHE}")
    return ReqMgr2(settings.reqmgr2_url, our_credentials(settings), limit)


def connect_cric(settings: Settings) -> Cric:
    limit = RateLimit(settings.cric_calls_per_sec, AT_ONCE)
    if settings.cric_url is None:
        return Cric(f"{settings.needed('services_url')}/cric", limit=limit)
    return Cric(settings.cric_url, our_credentials(settings), limit)


def our_credentials(settings: Settings) -> Certificate | TokenFile | None:
    """Who we are for a service that has no setting of its own for that."""
    if settings.certificate is not None:
        return Certificate(settings.certificate, settings.key)
    return TokenFile(settings.token_file) if settings.token_file is not None else None


def _limit(per_sec: float, turns: int | None) -> RateLimit:
    return RateLimit(per_sec, AT_ONCE) if turns is None else SharedRateLimit(per_sec, AT_ONCE, turns)


def _rucio_login(settings: Settings) -> Password | Certificate | TokenFile:
    if settings.rucio_certificate is not None:
        return Certificate(settings.rucio_certificate, settings.rucio_key)
    if settings.rucio_password is not None:
        return Password(settings.rucio_user or settings.rucio_account, settings.rucio_password)
    login = our_credentials(settings)
    if login is None:
        raise UserError(
            "No way to log in to Rucio: set WMS2_CERTIFICATE, WMS2_TOKEN_FILE, or WMS2_RUCIO_USER and "
            "WMS2_RUCIO_PASSWORD."
        )
    return login
