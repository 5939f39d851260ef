"""The calls of the stand-in Rucio by which people see what holds their data: locks of datasets, rules of a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wms2.local.catalogue import Catalogue
from wms2.local.holdings import DATASET, SCOPE
from wms2.local.journal import Record
from wms2.local.refusals import RucioFault, unknown_rse
from wms2.local.reply import JSON, STREAM, Call, Reply, Route, as_json
from wms2.local.rule_calls import shown_rule
from wms2.local.rules import OK, REPLICATING, STUCK, Rule
from wms2.local.storage import rse_id

OF_HISTORY = (
    "created_at", "updated_at", "rse_expression", "state", "account", "locks_ok_cnt", "locks_stuck_cnt",
    "locks_replicating_cnt",
)  # fmt: skip


class LockCalls:
    def __init__(self, catalogue: Catalogue) -> None:
        self._holdings = catalogue.holdings
        self._rules = catalogue.rules

    def routes(self) -> list[Route]:
        return [
            ("GET", "locks/*", STREAM, self._at_rse),
            ("GET", "locks/*/*", STREAM, self._of_dataset),
            ("POST", "locks/bulk_locks_for_dids", STREAM, self._of_datasets),
            ("GET", "dids/*/*/associated_rules", STREAM, self._rules_of_file),
            ("GET", "accounts/*/rules", STREAM, self._rules_of_account),
            ("GET", "rules/*/*/history", STREAM, self._history),
            ("GET", "rules/*/analysis", JSON, self._analysis),
        ]

    def _at_rse(self, call: Call) -> Reply:
        _check_type(call)
        (rse,) = call.names
        if rse not in self._holdings.storage.names():
            raise unknown_rse(rse)
        return Reply(iter([row for row in self._locks(self._rules.rules.values()) if row["rse"] == rse]))

    def _of_dataset(self, call: Call) -> Reply:
        _check_type(call)
        return Reply(iter(self._locks_of(call.scope, call.name)))

    def _of_datasets(self, call: Call) -> Reply:
        return Reply(iter([row for scope, name in call.dids() for row in self._locks_of(scope, name)]))

    def _locks_of(self, scope: str, name: str) -> list[Record]:
        is_dataset = scope == SCOPE and name in self._holdings.shelves
        rows = self._locks(self._rules.above(name)) if is_dataset else iter(())
        return [row for row in rows if row["name"] == name]

    def _locks(self, rules: Iterable[Rule]) -> Iterator[Record]:
        """A row for each dataset and RSE where a rule keeps it."""
        for rule in rules:
            for dataset in self._holdings.datasets_of(self._holdings.dids[rule.name]):
                for rse in rule.homes.get(dataset.name, rule.homes[rule.name]):
                    states = {rule.locks.get((name, rse), REPLICATING) for name in dataset.children}
                    yield {
                        "rse_id": rse_id(rse),
                        "rse": rse,
                        "scope": SCOPE,
                        "name": dataset.name,
                        "rule_id": rule.id,
                        "account": rule.account,
                        "state": next((state for state in (STUCK, REPLICATING) if state in states), OK),
                        "length": dataset.length,
                        "bytes": dataset.size,
                        "accessed_at": None,
                    }

    def _rules_of_file(self, call: Call) -> Reply:
        name = self._holdings.did(call.scope, call.name).name
        return Reply(iter([shown_rule(self._rules, rule) for rule in self._rules.holding(name)]))

    def _rules_of_account(self, call: Call) -> Reply:
        rules = [rule for rule in self._rules.rules.values() if rule.account == call.names[0]]
        return Reply(iter([shown_rule(self._rules, rule) for rule in rules]))

    def _history(self, call: Call) -> Reply:
        rules = (self._rules.rules[rule_id] for rule_id in self._rules.of_did.get(call.name, ()))
        rows = [shown_rule(self._rules, rule) for rule in rules if call.scope == SCOPE]
        return Reply(iter([{"rule_id": row["id"], **{key: row[key] for key in OF_HISTORY}} for row in rows]))

    def _analysis(self, call: Call) -> Reply:
        rule = self._rules.rule(call.names[0])
        return as_json({"rule_error": f"This replication rule is currently {rule.state}", "transfers": []})


def _check_type(call: Call) -> None:
    if call.query.get("did_type") != DATASET.lower():
        raise RucioFault("Wrong did_type specified")
