"""The calls of the stand-in Rucio for rules and what they stand on: RSEs, subscriptions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from wms2.local.catalogue import Catalogue
from wms2.local.journal import Record
from wms2.local.refusals import RucioFault, RucioRefusal, unknown_rse
from wms2.local.reply import JSON, STREAM, Call, Reply, Route, as_date, as_json
from wms2.local.rules import Rule, Rules, subscription_row
from wms2.local.storage import BadExpression, attributes, protocols_of, rows_of, rse_id


class RuleCalls:
    def __init__(self, catalogue: Catalogue) -> None:
        self._journal = catalogue.journal
        self._holdings = catalogue.holdings
        self._rules = catalogue.rules

    def routes(self) -> list[Route]:
        return [
            ("GET", "dids/*/*/rules", STREAM, self._rules_of_did),
            ("GET", "rules", STREAM, self._list_rules),
            ("POST", "rules", None, self._add_rules),
            ("GET", "rules/*", JSON, self._rule),
            ("PUT", "rules/*", None, self._update_rule),
            ("DELETE", "rules/*", None, self._delete_rule),
            ("GET", "rules/*/locks", STREAM, self._locks),
            ("GET", "rses", STREAM, self._rses),
            ("GET", "rses/*", JSON, self._rse),
            ("GET", "rses/*/attr", JSON, self._attributes),
            ("GET", "rses/*/usage", STREAM, self._usage),
            ("GET", "rses/*/limits", JSON, self._limits),
            ("GET", "rses/*/protocols", JSON, self._protocols),
            ("GET", "subscriptions", STREAM, self._subscriptions),
            ("GET", "subscriptions/*", STREAM, self._subscriptions),
            ("GET", "subscriptions/*/*", STREAM, self._subscriptions),
            ("POST", "subscriptions/*/*", None, self._add_subscription),
        ]

    # Rules

    def _add_rules(self, call: Call) -> Reply:
        for key in ("dids", "account", "copies", "rse_expression"):
            call.need(key)
        return Reply(status=201, text=json.dumps(self._rules.add(call.body, call.issuer)))

    def _rule(self, call: Call) -> Reply:
        (rule_id,) = call.names
        if not re.fullmatch(r"[0-9a-f]{32}", rule_id):
            raise RucioRefusal(500, "RucioException", f"Badly formatted rule id ({rule_id})")
        return as_json(shown_rule(self._rules, self._rules.rule(rule_id)))

    def _rules_of_did(self, call: Call) -> Reply:
        return self._rows_of_rules(self._rules.of_did.get(self._holdings.did(call.scope, call.name).name, ()))

    def _rows_of_rules(self, rule_ids: Iterable[str]) -> Reply:
        rows = [
            {**shown_rule(self._rules, self._rules.rules[rule_id]), "bytes": None} for rule_id in rule_ids
        ]
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

    def _named(self, call: Call) -> str:
        (rse,) = call.names
        if rse not in self._holdings.storage.names():
            raise unknown_rse(rse)
        return rse

    def _rse(self, call: Call) -> Reply:
        rse = self._named(call)
        return as_json({**next(rows_of([rse])), "domain": ["lan", "wan"], "protocols": protocols_of(rse)})

    def _attributes(self, call: Call) -> Reply:
        return as_json(attributes(self._named(call)))

    def _protocols(self, call: Call) -> Reply:
        return Reply(text=json.dumps(protocols_of(self._named(call))), form=JSON)

    def _limits(self, call: Call) -> Reply:
        self._named(call)
        return as_json({})

    def _usage(self, call: Call) -> Reply:
        rse = self._named(call)
        files, used = self._holdings.stored_at(rse)
        counted = {"used": used, "total": used, "free": None, "files": files}
        return Reply(
            iter([{"rse_id": rse_id(rse), "rse": rse, "source": "rucio", **counted, "updated_at": None}])
        )

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


def shown_rule(rules: Rules, rule: Rule) -> Record:
    """A rule with its dates as Rucio writes them."""
    row = rules.shown(rule)
    for key in ("created_at", "updated_at", "expires_at", "stuck_at"):
        row[key] = None if row[key] is None else as_date(row[key])
    return row
