"""Webhooks: a JSON document posted to an address."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field

import httpx

from wms2.adapters.mail import NotSent
from wms2.core.plain import plain_line
from wms2.models.contacts import Webhook
from wms2.models.notice import Digest

TIMEOUT = httpx.Timeout(20, connect=10)
SIGNATURE, IDEMPOTENCY_KEY = "X-WMS2-Signature", "Idempotency-Key"


@dataclass(frozen=True)
class Poster:
    """Posts to one webhook."""

    name: str
    webhook: Webhook = field(repr=False)

    async def send(self, digest: Digest) -> None:
        """The document is posted; any answer but a good one is a NotSent. Redirections are not followed."""
        body = digest.body.encode()
        headers = {"Content-Type": "application/json", IDEMPOTENCY_KEY: str(digest.id)}
        if self.webhook.secret is not None:
            headers[SIGNATURE] = signature(self.webhook.secret, body)
        try:
            async with httpx.AsyncClient(timeout=TIMEOUT) as client:
                answer = await client.post(self.webhook.url, content=body, headers=headers)
        except httpx.HTTPError as error:
            said = plain_line(str(error)) or type(error).__name__
            raise NotSent(f"webhook {self.name} does not answer: {said}") from None
        if not answer.is_success:
            raise NotSent(f"webhook {self.name} answered {answer.status_code}")


def signature(secret: str, body: bytes) -> str:
    """What proves to the receiver that the document is ours."""
    return f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"
