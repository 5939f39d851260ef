"""The stand-in for Rucio: its calls over HTTP, in the words of Rucio 41.

What it is asked beyond them is 501. Two things differ from a server: what counts the files of a dataset at an RSE is
always up to date, and Rucio's daemons (rules cover new files, transfers end, subscriptions make rules, dead rules go)
run when they are told to, or every so many seconds where `daemons_sec` is set.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from email.message import Message
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

from wms2.local.account_calls import AccountCalls
from wms2.local.catalogue import Catalogue
from wms2.local.data_calls import DataCalls
from wms2.local.journal import Record, Refused
from wms2.local.lock_calls import LockCalls
from wms2.local.refusals import RucioRefusal as RucioRefusal
from wms2.local.refusals import unknown_did
from wms2.local.reply import BYTES, JSON, Answer, Call, Route, as_date, check_accepted
from wms2.local.reply import Reply as Reply
from wms2.local.rule_calls import RuleCalls
from wms2.local.rules import OPERATOR, ROOT

ACCOUNT = USER = PASSWORD = "wms2"  # noqa: S105 - it guards nothing but a stand-in on loopback
VERSION = "41.5.1"
TOKEN_LIFE_SEC = 3600


class Rucio:
    def __init__(
        self, catalogue: Catalogue, clock: Callable[[], float] = time.time, daemons_sec: float | None = None
    ) -> None:
        self._lock = catalogue.journal.lock
        self._journal = catalogue.journal
        self._rules = catalogue.rules
        self._clock = clock
        self._tokens: dict[str, tuple[str, float]] = {}
        self.daemons_sec = daemons_sec
        self._daemons_ran_at = clock()
        self._rules.accounts.add(ACCOUNT)
        self._routes: list[Route] = [
            ("GET", "auth/validate", None, self._validate),
            ("GET", "accounts/whoami", None, self._whoami),
            *AccountCalls(catalogue).routes(),
            *LockCalls(catalogue).routes(),
            *RuleCalls(catalogue).routes(),
            *DataCalls(catalogue, clock).routes(),
        ]

    def reply(self, method: str, path: str, headers: Message, body: Any) -> Reply:
        """The answer to a call; path and query are as they came, because names in them hold encoded slashes."""
        path, _, query = path.partition("?")
        # A slash at the end belongs to the name of a DID, and to nothing elsewhere.
        path = path if path.startswith("dids/") else path.rstrip("/")
        parts = [unquote_plus(part) for part in path.split("/")]
        match method, parts:
            case "GET", ["ping"]:
                return Reply(text=json.dumps({"version": VERSION}), form=JSON)
            case "GET", ["auth", "userpass"]:
                return self._log_in(headers)
            case "GET", ["auth", "x509" | "x509_proxy"]:
                raise RucioRefusal(401, "CannotAuthenticate", "Cannot get DN")
        with self._lock:
            self.tend()
            form, answer, names = self._route(method, parts)
            issuer = self._check_token(headers, parts)
            check_accepted(headers.get("Accept"), form)
            return answer(Call(names, dict(parse_qsl(query, keep_blank_values=True)), body, issuer))

    def _route(self, method: str, parts: list[str]) -> tuple[str | None, Answer, list[str]]:
        for verb, pattern, form, answer in self._routes:
            wanted = pattern.split("/")
            same = verb == method and len(wanted) == len(parts)
            if same and all(want in ("*", part) for want, part in zip(wanted, parts, strict=True)):
                names = [part for want, part in zip(wanted, parts, strict=True) if want == "*"]
                return form, answer, names
        if parts[0] not in {pattern.split("/")[0] for _, pattern, _, _ in self._routes}:
            raise Refused(404, "The requested URL was not found on the server.")
        if parts[0] == "dids" and not parts[-1]:
            raise unknown_did(parts[1], "/".join(parts[2:]))
        path = "/".join(parts)
        raise RucioRefusal(501, "NotImplemented", f"the local stack's Rucio does not know {method} {path}")

    # Tokens

    def _log_in(self, headers: Message) -> Reply:
        account, user = headers.get("X-Rucio-Account", ""), headers.get("X-Rucio-Username")
        password = headers.get("X-Rucio-Password")
        if not (account and user and password):
            message = "Cannot authenticate without passing all required arguments"
            raise RucioRefusal(401, "CannotAuthenticate", message)
        if account not in (ACCOUNT, ROOT) or (user, password) != (USER, PASSWORD):
            message = f"Cannot authenticate to account {account} with given credentials"
            raise RucioRefusal(401, "CannotAuthenticate", message)
        token = f"{account}-{USER}-unknown-{secrets.token_hex(16)}"
        expires_at = self.accept_token(token, account, TOKEN_LIFE_SEC)
        told = {
            "X-Rucio-Auth-Account": account,
            "X-Rucio-Auth-Token": token,
            "X-Rucio-Auth-Token-Expires": as_date(expires_at),
        }
        return Reply(headers=told, form=BYTES)

    def accept_token(self, token: str, account: str, life_sec: float) -> float:
        """Take this token for that account, such as one of an identity provider; until when."""
        expires_at = self._clock() + life_sec
        self._tokens[token] = account, expires_at
        return expires_at

    def expire_tokens(self) -> None:
        self._tokens.clear()

    def _check_token(self, headers: Message, parts: list[str]) -> str:
        token = headers.get("X-Rucio-Auth-Token")
        if not token:
            raise RucioRefusal(400, "ValueError", "Token must be set.")
        account, expires_at = self._tokens.get(token, ("", 0.0))
        if expires_at < self._clock():
            if parts == ["auth", "validate"]:
                raise RucioRefusal(500, "CannotAuthenticate", "NoneType: None\n")
            raise RucioRefusal(401, "CannotAuthenticate", "Cannot authenticate with given credentials")
        return account

    def _validate(self, call: Call) -> Reply:
        told = {"account": call.issuer, "identity": USER, "audience": None, "authz_scope": None, "vo": "def"}
        return Reply(text=str(told), form=BYTES)

    # Daemons

    def tend(self) -> None:
        """Let the daemons run if it is time."""
        now = self._clock()
        if self.daemons_sec is not None and now >= self._daemons_ran_at + self.daemons_sec:
            self._daemons_ran_at = now
            self._rules.run_daemons()

    def _whoami(self, call: Call) -> Reply:
        return Reply(status=303, headers={"Location": call.issuer})

    # What tests do to it

    def control(self, method: str, what: list[str], body: Any) -> Record:
        """Not of Rucio: what its daemons, its transfers and its operators do."""
        with self._lock:
            match method, what:
                case "POST", ["daemons"]:
                    self._rules.run_daemons()
                case "PUT", ["daemons"]:
                    self.daemons_sec = body["every_sec"]
                case "POST", ["rules", rule_id, "finish"]:
                    self._rules.finish(rule_id)
                    self._rules.unstick(rule_id)
                case "POST", ["rules", rule_id, "stick"]:
                    self._rules.stick(rule_id, (body or {}).get("error", "no route to host"))
                case "DELETE", ["tokens"]:
                    self.expire_tokens()
                case "PUT", ["tokens"]:
                    self.accept_token(body["token"], body.get("account", ACCOUNT), body.get("life_sec", 3600))
                case "POST", ["subscriptions", name]:
                    return {"id": self._rules.add_subscription(name, OPERATOR, body)}
                case "PUT", ["rses", rse]:
                    self._journal.change("rse", rse)
                case _:
                    raise Refused(404, f"no such control of Rucio: {method} {'/'.join(what)}")
        return {}
