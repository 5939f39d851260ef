"""The calls of the stand-in Rucio for accounts: what each may hold and holds, and the one scope."""

from __future__ import annotations

import json
import math

from wms2.local.catalogue import Catalogue
from wms2.local.holdings import SCOPE
from wms2.local.journal import Record
from wms2.local.refusals import RucioRefusal, unknown_rse
from wms2.local.reply import CREATED, JSON, STREAM, Call, Reply, Route, as_json
from wms2.local.rules import PLENTY, ROOT
from wms2.local.storage import rse_id


class AccountCalls:
    def __init__(self, catalogue: Catalogue) -> None:
        self._journal = catalogue.journal
        self._holdings = catalogue.holdings
        self._rules = catalogue.rules

    def routes(self) -> list[Route]:
        return [
            ("GET", "accounts", STREAM, self._accounts),
            ("GET", "accounts/*", JSON, self._account),
            ("GET", "accounts/*/attr", JSON, self._attributes),
            ("GET", "accounts/*/scopes", JSON, self._scopes_of),
            ("GET", "accounts/*/limits/local", JSON, self._limits),
            ("GET", "accounts/*/limits/local/*", JSON, self._limits),
            ("POST", "accounts/*/limits/local/*", None, self._set_limit),
            ("DELETE", "accounts/*/limits/local/*", None, self._set_limit),
            ("GET", "accounts/*/limits/global", JSON, lambda _: as_json({})),
            ("GET", "accounts/*/usage/local", STREAM, self._usage),
            ("GET", "accounts/*/usage/local/*", STREAM, self._usage),
            ("GET", "scopes", JSON, lambda _: _listed([SCOPE])),
        ]

    def _known(self, call: Call) -> str:
        name = call.names[0]
        if name not in self._rules.accounts:
            raise RucioRefusal(404, "AccountNotFound", f"Account with ID '{name}' cannot be found")
        return name

    def _accounts(self, _: Call) -> Reply:
        names = sorted(self._rules.accounts)
        return Reply({"account": name, "type": "SERVICE", "email": None} for name in names)

    def _account(self, call: Call) -> Reply:
        name = self._known(call)
        never = dict.fromkeys(("created_at", "updated_at", "suspended_at", "deleted_at"))
        return as_json(
            {"account": name, "account_type": "SERVICE", "email": None, "status": "ACTIVE", **never}
        )

    def _attributes(self, call: Call) -> Reply:
        self._known(call)
        return _listed([])

    def _scopes_of(self, call: Call) -> Reply:
        name = self._known(call)
        if name != ROOT:
            raise RucioRefusal(404, "ScopeNotFound", f"no scopes found for account ID '{name}'")
        return _listed([SCOPE])

    def _named(self, call: Call) -> list[str]:
        """The RSE that is named, or all."""
        _, *named = call.names
        known = self._holdings.storage.names()
        if named and named[0] not in known:
            raise unknown_rse(named[0])
        return named or known

    def _limits(self, call: Call) -> Reply:
        limits = {rse: self._limit(call.names[0], rse) for rse in self._named(call)}
        return as_json({rse: math.inf if size and size < 0 else size for rse, size in limits.items()})

    def _limit(self, account: str, rse: str) -> int | None:
        return self._rules.limits.get((account, rse), PLENTY)

    def _set_limit(self, call: Call) -> Reply:
        account, rse = call.names
        self._named(call)
        size = call.body["bytes"] if call.body else None
        self._journal.change("limit", account, rse, size)
        return Reply(status=201, text=CREATED) if call.body else Reply()

    def _usage(self, call: Call) -> Reply:
        """A server counts some time later what rules hold; here it is counted at once."""
        account = self._known(call)
        return Reply(iter([self._use_of(account, rse) for rse in self._named(call)]))

    def _use_of(self, account: str, rse: str) -> Record:
        limit = self._limit(account, rse)
        files = self._rules.held_by(account, rse)
        used = sum(self._holdings.dids[name].size or 0 for name in files)
        return {
            "rse_id": rse_id(rse),
            "rse": rse,
            "bytes": used,
            "files": len(files),
            "bytes_limit": limit,
            "bytes_remaining": (limit or 0) - used,
        }


def _listed(names: list[str]) -> Reply:
    return Reply(text=json.dumps(names), form=JSON)
