"""The credentials that jobs carry: copies at a stable path, taken from where another program renews them."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from wms2.config import Settings
from wms2.core.credentials import HeldCredential, proxy_end, token_end

FOLDER = ".credentials"
"""Below the folder of the DAGs. No request has such a name."""


class _Kind(NamedTuple):
    word: str
    source: Path
    copy: Path
    end: Callable[[bytes], datetime]


class JobCredentials:
    """A proxy, a token, or both."""

    def __init__(self, proxy: Path | None, token: Path | None, submit_root: Path) -> None:
        self._folder = submit_root / FOLDER
        self.proxy = self._folder / "job.proxy" if proxy else None
        self.token = self._folder / "job.token" if token else None
        """The stable paths that submit files name."""
        self._kinds = []
        if proxy and self.proxy:
            self._kinds.append(_Kind("proxy", proxy, self.proxy, proxy_end))
        if token and self.token:
            self._kinds.append(_Kind("token", token, self.token, token_end))

    def refresh(self) -> list[HeldCredential]:
        """Take over what was renewed. What cannot be read is left, and what was there before stays in its place."""
        return [self._refreshed(kind) for kind in self._kinds]

    def _refreshed(self, kind: _Kind) -> HeldCredential:
        problem = ""
        try:
            content = kind.source.read_bytes()
            # Also a file that is being written at this moment is not taken over.
            kind.end(content)
            self._take_over(content, kind.copy)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            problem = f"{kind.source} cannot be used: {why}"
        try:
            ends_at = kind.end(kind.copy.read_bytes())
        except (OSError, ValueError):
            ends_at = None
        return HeldCredential(f"the {kind.word} of jobs from {kind.source}", ends_at, problem, kind.word)

    def _take_over(self, content: bytes, copy: Path) -> None:
        if copy.exists() and copy.read_bytes() == content:
            return
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = copy.with_name(f"{copy.name}.{os.getpid()}.partial")
        partial.unlink(missing_ok=True)
        with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
        partial.replace(copy)


def job_credentials_of(settings: Settings) -> JobCredentials | None:
    """Those that are configured; None where jobs carry none."""
    if settings.job_proxy is None and settings.job_token is None:
        return None
    submit_root = settings.submit_root or settings.home / "submit"
    return JobCredentials(settings.job_proxy, settings.job_token, submit_root)
