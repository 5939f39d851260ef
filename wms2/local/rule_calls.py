"""The calls of the stand-in Rucio for rules and what they stand on: accounts, RSEs, subscriptions."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable

from wms2.local.catalogue import Catalogue
from wms2.local.journal import Record
from wms2.local.refusals import RucioFault, RucioRefusal, unknown_rse
from wms2.local.reply import CREATED, JSON, STREAM, Call, Reply, Route, as_date, as_json
from wms2.local.rules import PLENTY, Rule, subscription_row
from wms2.local.storage import BadExpression, attributes, rows_of


class RuleCalls:
    def __init__(self, catalogue: Catalogue) -> None:
        self._journal = catalogue.journal
        self._holdings = catalogue.holdings
        self._rules = catalogue.rules

    def routes(self) -> list[Route]:
        return [
            ("GET", "dids/*/*/rules", STREAM, self._rules_of_did),
            ("GET", "accounts/*", JSON, self._account),
            ("GET", "accounts/*/limits/local", JSON, self._limits),
            ("GET", "accounts/*/limits/local/*", JSON, self._limits),
            ("POST", "accounts/*/limits/local/*", None, self._set_limit),
            ("DELETE", "accounts/*/limits/local/*", None, self._set_limit),
            ("GET", "rules", STREAM, self._list_rules),
            ("POST", "rules", None, self._add_rules),
            ("GET", "rules/*", JSON, self._rule),
            ("PUT", "rules/*", None, self._update_rule),
            ("DELETE", "rules/*", None, self._delete_rule),
            ("GET", "rules/*/locks", STREAM, self._locks),
            ("GET", "rses", STREAM, self._rses),
            ("GET", "rses/*", JSON, self._rse),
            ("GET", "rses/*/attr", JSON, self._attributes),
            ("GET", "subscriptions", STREAM, self._subscriptions),
            ("GET", "subscriptions/*", STREAM, self._subscriptions),
            ("GET", "subscriptions/*/*", STREAM, self._subscriptions),
            ("POST", "subscriptions/*/*", None, self._add_subscription),
        ]

    # Accounts

    def _account(self, call: Call) -> Reply:
        (name,) = call.names
        if name not in self._rules.accounts:
            raise RucioRefusal(404, "AccountNotFound", f"Account with ID '{name}' cannot be found")
        return as_json({"account": name, "account_type": "SERVICE", "email": None, "status": "ACTIVE"})

    def _limits(self, call: Call) -> Reply:
        account, *named = call.names
        known = self._holdings.storage.names()
        if named and named[0] not in known:
            raise unknown_rse(named[0])
        limits = {rse: self._rules.limits.get((account, rse), PLENTY) for rse in named or known}
        return as_json({rse: math.inf if size and size < 0 else size for rse, size in limits.items()})

    def _set_limit(self, call: Call) -> Reply:
        account, rse = call.names
        if rse not in self._holdings.storage.names():
            raise unknown_rse(rse)
        size = call.body["bytes"] if call.body else None
        self._journal.change("limit", account, rse, size)
        return Reply(status=201, text=CREATED) if call.body else Reply()

    # Rules

    def _add_rules(self, call: Call) -> Reply:
        for key in ("dids", "account", "copies", "rse_expression"):
            call.need(key)
        return Reply(status=201, text=json.dumps(self._rules.add(call.body, call.issuer)))

    def _rule(self, call: Call) -> Reply:
        (rule_id,) = call.names
        if not re.fullmatch(r"[0-9a-f]{32}", rule_id):
            raise RucioRefusal(500, "RucioException", f"Badly formatted rule id ({rule_id})")
        return as_json(self._shown(self._rules.rule(rule_id)))

    def _shown(self, rule: Rule) -> Record:
        row = self._rules.shown(rule)
        for key in ("created_at", "updated_at", "expires_at", "stuck_at"):
            row[key] = None if row[key] is None else as_date(row[key])
        return row

    def _rules_of_did(self, call: Call) -> Reply:
        return self._rows_of_rules(self._rules.of_did.get(self._holdings.did(call.scope, call.name).name, ()))

    def _rows_of_rules(self, rule_ids: Iterable[str]) -> Reply:
        rows = [{**self._shown(self._rules.rules[rule_id]), "bytes": None} for rule_id in rule_ids]
        return Reply(iter(rows))

    def _list_rules(self, call: Call) -> Reply:
        known = ("scope", "name", "account", "rse_expression", "activity", "id", "subscription_id")
        if stranger := next((key for key in call.query if key not in known), None):
            raise RucioFault(f"type object 'ReplicationRule' has no attribute '{stranger}'")
        found = [
            rule.id
            for rule in self._rules.rules.values()
            if all(self._rules.shown(rule)[key] == value for key, value in call.query.items())
        ]
        return self._rows_of_rules(found)

    def _update_rule(self, call: Call) -> Reply:
        self._rules.update(call.names[0], call.need("options"))
        return Reply()

    def _delete_rule(self, call: Call) -> Reply:
        if call.body is None:
            raise RucioRefusal(400, "ValueError", "cannot decode json parameter dictionary")
        self._rules.delete(call.names[0], call.issuer)
        return Reply()

    def _locks(self, call: Call) -> Reply:
        """None for a rule that is not there, as with Rucio itself."""
        rule = self._rules.rules.get(call.names[0])
        return Reply(iter(list(self._rules.locks(rule)) if rule else []))

    # Storage and subscriptions

    def _rses(self, call: Call) -> Reply:
        if expression := call.query.get("expression"):
            return Reply({"rse": rse} for rse in self._selected(expression))
        return Reply(rows_of(self._holdings.storage.names()))

    def _rse(self, call: Call) -> Reply:
        (rse,) = call.names
        if rse not in self._holdings.storage.names():
            raise unknown_rse(rse)
        return as_json(next(rows_of([rse])))

    def _attributes(self, call: Call) -> Reply:
        (rse,) = call.names
        if rse not in self._holdings.storage.names():
            raise unknown_rse(rse)
        return as_json(attributes(rse))

    def _subscriptions(self, call: Call) -> Reply:
        account, name = (*call.names, None, None)[:2]
        found = [
            record
            for record in self._rules.subscriptions.values()
            if account in (None, record["account"]) and name in (None, record["name"])
        ]
        if not found:
            message = f"Subscription for account '{account or '*'}' named '{name}' not found"
            raise RucioRefusal(404, "SubscriptionNotFound", message)
        return Reply(iter([subscription_row(record, as_date(record["made_at"])) for record in found]))

    def _add_subscription(self, call: Call) -> Reply:
        account, name = call.names
        return Reply(status=201, text=self._rules.add_subscription(name, account, call.need("options")))

    def _selected(self, expression: str) -> list[str]:
        try:
            return self._holdings.storage.select(expression)
        except BadExpression as error:
            raise RucioRefusal(400, "InvalidRSEExpression", str(error)) from None
