"""The replication rules of the stand-in Rucio, the locks they hold, and what Rucio's daemons do with them."""

from __future__ import annotations

import json
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from wms2.local.holdings import AVAILABLE, COPYING, DATASET, SCOPE, STATES, Did, Holdings
from wms2.local.journal import Record
from wms2.local.refusals import RucioFault, RucioRefusal, invalid, unknown_rse
from wms2.local.storage import BadExpression, rse_id

OK, REPLICATING, STUCK = "OK", "REPLICATING", "STUCK"
GROUPINGS = (DATASET, "NONE", "ALL", None)
ACTIVITIES = (
    "Data Brokering", "Data Consolidation", "Data Rebalancing", "Debug", "Express", "Functional Test",
    "Group Subscriptions", "Production Input", "Production Output", "Analysis Input", "Analysis Output", "Staging",
    "T0 Export", "T0 Tape", "Upload/Download (Job)", "Upload/Download (User)", "User Subscriptions",
    "Data Challenge",
)  # fmt: skip
OPTIONS = (
    "lifetime",
    "locked",
    "comment",
    "activity",
    "priority",
    "state",
    "account",
    "meta",
    "purge_replicas",
)
SOFT_DELETE_SEC = 3600
ROOT = "root"
OPERATOR = "transfer_ops"
"""The account that owns the rules of subscriptions."""
PLENTY = 10**15

Lock = tuple[str, str]
"""A file and the RSE where it is kept."""


@dataclass
class Rule:
    id: str
    name: str
    account: str
    expression: str
    copies: int
    grouping: str | None
    activity: str
    made_at: float
    comment: str | None = None
    subscription: str | None = None
    source: str | None = None
    priority: int = 3
    locked: bool = False
    state: str = OK
    error: str | None = None
    changed_at: float = 0
    expires_at: float | None = None
    stuck_at: float | None = None
    locks: dict[Lock, str] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    homes: dict[str, list[str]] = field(default_factory=dict)
    """Where each dataset goes, so that files which come later go there too."""

    def set_lock(self, lock: Lock, state: str) -> None:
        if lock in self.locks:
            self.counts[self.locks[lock]] -= 1
        self.locks[lock] = state
        self.counts[state] += 1

    def drop_lock(self, lock: Lock) -> None:
        if state := self.locks.pop(lock, None):
            self.counts[state] -= 1

    def judged(self) -> str:
        return STUCK if self.counts[STUCK] else REPLICATING if self.counts[REPLICATING] else OK


class Rules:
    """Who changes them holds the journal's lock."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self._journal = holdings.journal
        self.rules: dict[str, Rule] = {}
        self.of_did: dict[str, dict[str, None]] = {}
        self._keepers: dict[Lock, dict[str, None]] = {}
        self.accounts = {ROOT, OPERATOR}
        self.limits: dict[tuple[str, str], int | None] = {}
        self.subscriptions: dict[str, Record] = {}
        self._journal.learn(
            rule=self._take_rule,
            covered=self._take_covered,
            rule_options=self._take_options,
            rule_gone=self._take_gone,
            states=self._take_states,
            judged=self._take_judged,
            limit=self._take_limit,
            subscription=self._take_subscription,
            seen=self._take_seen,
        )

    # What callers ask for

    def rule(self, rule_id: str) -> Rule:
        if rule_id not in self.rules:
            raise RucioRefusal(404, "RuleNotFound", f"No rule with the id {rule_id} found")
        return self.rules[rule_id]

    def add(self, asked: Record, issuer: str) -> list[str]:
        """A rule for each DID that is named, of the one who asks unless another account is named."""
        asked = {**asked, "account": asked["account"] or issuer}
        account, copies = asked["account"], asked["copies"]
        self._check(asked, issuer)
        try:
            rses = self._holdings.storage.select(asked["rse_expression"])
        except BadExpression as error:
            raise RucioRefusal(409, "InvalidRSEExpression", str(error)) from None
        if len(rses) < copies:
            message = (
                "Target RSE set not sufficient for number of copies. "
                f"({copies} copies requested, RSE set size {len(rses)})"
            )
            raise RucioRefusal(409, "InsufficientTargetRSEs", message)
        return [self._add(asked, self._did(did), account, rses) for did in asked["dids"]]

    def _did(self, did: Record) -> Did:
        name = did["name"]
        if did["scope"] != SCOPE or name not in self._holdings.dids:
            message = f"Data identifier {did['scope']}:{name} is not valid."
            raise RucioRefusal(404, "DataIdentifierNotFound", message)
        return self._holdings.dids[name]

    def _check(self, asked: Record, issuer: str) -> None:
        if asked.get("grouping", DATASET) not in GROUPINGS:
            raise invalid("rule", f"'{asked['grouping']}' is not one of {list(GROUPINGS)}", 409)
        if asked.get("activity") not in (None, *ACTIVITIES):
            raise invalid("rule", f"'{asked['activity']}' is not one of {list(ACTIVITIES)}", 409)
        if asked["copies"] < 1:
            message = "The number of copies for a replication rule should be greater than 0."
            raise RucioRefusal(500, "InvalidValueForKey", message)
        account = asked["account"]
        if account not in self.accounts:
            raise RucioRefusal(500, "AccountNotFound", f"Account {account} does not exist")
        if account != issuer and issuer != ROOT:
            raise RucioRefusal(500, "AccessDenied", f"Account {issuer} can not add replication rule")

    def _add(self, asked: Record, did: Did, account: str, rses: list[str]) -> str:
        copies, expression = asked["copies"], asked["rse_expression"]
        for rule_id in self.of_did.get(did.name, ()):
            other = self.rules[rule_id]
            if (other.account, other.expression, other.copies) == (account, expression, copies):
                message = "UNIQUE constraint failed: scope, name, account, rse_expression, copies"
                raise RucioRefusal(409, "DuplicateRule", message)
        _, size = self._holdings.size_of(did)
        able = [rse for rse in rses if self._has_room(account, rse, size)]
        if len(able) < copies:
            message = "There is insufficient quota on any of the target RSE's to fulfill the operation."
            raise RucioRefusal(409, "InsufficientAccountLimit", message)
        now = self._holdings.clock()
        record = {
            "id": uuid.uuid4().hex,
            "name": did.name,
            "account": account,
            "expression": expression,
            "copies": copies,
            "grouping": asked.get("grouping") or DATASET,
            "activity": asked.get("activity") or "User Subscriptions",
            "made_at": now,
            "changed_at": now,
            "comment": asked.get("comment"),
            "subscription": asked.get("subscription_id"),
            "source": asked.get("source_replica_expression"),
            "priority": asked.get("priority", 3),
            "locked": bool(asked.get("locked")),
            "expires_at": None if asked.get("lifetime") is None else now + asked["lifetime"],
        }
        homes = self._homes(did, record["grouping"], copies, able)
        self._journal.change("rule", record, homes)
        self._journal.change("covered", record["id"])
        return str(record["id"])

    def _has_room(self, account: str, rse: str, size: int) -> bool:
        limit = self.limits.get((account, rse), PLENTY)
        return limit is not None and (limit < 0 or size <= limit)

    def _homes(self, did: Did, grouping: str, copies: int, rses: list[str]) -> dict[str, list[str]]:
        """Where each dataset goes: to the RSEs that have most of it."""
        holdings = self._holdings
        if grouping == "ALL" or did.kind != "CONTAINER":
            return {did.name: self._best(list(holdings.files_of(did)), copies, rses)}
        named = {one.name: list(one.children) for one in holdings.datasets_of(did)}
        homes = {name: self._best(files, copies, rses) for name, files in named.items()}
        # For datasets that come later.
        return {**homes, did.name: rses[:copies]}

    def _best(self, files: list[str], copies: int, rses: list[str]) -> list[str]:
        there: Counter[str] = Counter()
        for name in files:
            states = self._holdings.replicas.get(name, {})
            there.update(rse for rse in rses if states.get(rse) == AVAILABLE)
        return sorted(rses, key=lambda rse: -there[rse])[:copies]

    def update(self, rule_id: str, options: Record) -> None:
        rule = self.rule(rule_id)
        if stranger := next((key for key in options if key not in OPTIONS), None):
            message = f"{stranger} is not a valid option to set."
            raise RucioRefusal(409, "InputValidationError", message)
        now = self._holdings.clock()
        kept = {
            key: value
            for key, value in options.items()
            if key in ("locked", "comment", "activity", "priority")
        }
        if "lifetime" in options:
            lifetime = options["lifetime"]
            kept["expires_at"] = None if lifetime is None else now + lifetime
        if "state" in options:
            kept |= {"state": options["state"], "stuck_at": now if options["state"] == STUCK else None}
        self._journal.change("rule_options", rule.id, {**kept, "changed_at": now})

    def delete(self, rule_id: str, issuer: str) -> None:
        """Soft: it goes an hour later."""
        if not re.fullmatch(r"[0-9a-f]{32}", rule_id):
            raise RucioFault("(builtins.ValueError) badly formed hexadecimal UUID string")
        rule = self.rule(rule_id)
        if issuer not in (rule.account, ROOT):
            message = f"Account {issuer} can not remove this replication rule."
            raise RucioRefusal(401, "AccessDenied", message)
        if rule.locked:
            message = "The replication rule is locked and has to be unlocked before it can be deleted."
            raise RucioRefusal(401, "UnsupportedOperation", message)
        now = self._holdings.clock()
        self._journal.change(
            "rule_options", rule_id, {"expires_at": now + SOFT_DELETE_SEC, "changed_at": now}
        )

    def set_states(self, rse: str, files: list[Record]) -> None:
        """Other states of replicas, which move the locks on them."""
        if rse not in self._holdings.storage.names():
            raise unknown_rse(rse, 500)
        for file in files:
            if file["state"] not in STATES:
                raise invalid("dids", f"'{file['state']}' is not one of {sorted(STATES)}", 500)
            if rse not in self._holdings.replicas.get(file["name"], {}):
                message = f"No row found for scope: {file['scope']} name: {file['name']} rse: {rse}"
                raise RucioRefusal(500, "ReplicaNotFound", message)
        self._journal.change("states", rse, [[file["name"], STATES[file["state"]]] for file in files])

    def shown(self, rule: Rule) -> Record:
        return {
            "id": rule.id,
            "scope": SCOPE,
            "name": rule.name,
            "did_type": self._holdings.dids[rule.name].kind,
            "account": rule.account,
            "rse_expression": rule.expression,
            "copies": rule.copies,
            "grouping": rule.grouping,
            "state": rule.state,
            "error": rule.error,
            "locks_ok_cnt": rule.counts[OK],
            "locks_replicating_cnt": rule.counts[REPLICATING],
            "locks_stuck_cnt": rule.counts[STUCK],
            "activity": rule.activity,
            "comments": rule.comment,
            "subscription_id": rule.subscription,
            "source_replica_expression": rule.source,
            "priority": rule.priority,
            "locked": rule.locked,
            "created_at": rule.made_at,
            "updated_at": rule.changed_at,
            "expires_at": rule.expires_at,
            "stuck_at": rule.stuck_at,
            "weight": None,
            "notification": "NO",
            "child_rule_id": None,
            "eol_at": None,
            "purge_replicas": False,
            "split_container": False,
            "ignore_availability": False,
            "ignore_account_limit": False,
            "meta": None,
            "deleted_at": None,
        }

    def holding(self, file: str) -> list[Rule]:
        """The rules that keep a file somewhere."""
        ids = {
            rule_id
            for rse in self._holdings.replicas.get(file, {})
            for rule_id in self._keepers.get((file, rse), ())
        }
        return [self.rules[rule_id] for rule_id in sorted(ids)]

    def held_by(self, account: str, rse: str) -> set[str]:
        """The files that rules of an account keep at an RSE."""
        rules = (rule for rule in self.rules.values() if rule.account == account)
        return {name for rule in rules for name, where in rule.locks if where == rse}

    def above(self, name: str) -> list[Rule]:
        """The rules on a dataset, and on what it is in."""
        return [self.rules[rule_id] for rule_id in dict.fromkeys(self._rules_above(name))]

    def locks(self, rule: Rule) -> Iterator[Record]:
        for (name, rse), state in sorted(rule.locks.items()):
            yield {
                "scope": SCOPE,
                "name": name,
                "rse_id": rse_id(rse),
                "rse": rse,
                "state": state,
                "rule_id": rule.id,
            }

    # What Rucio's daemons do

    def run_daemons(self) -> None:
        """Subscriptions make rules, rules cover new files, transfers end, stuck rules are judged, dead ones go."""
        self.subscribe()
        self.evaluate()
        for rule in list(self.rules.values()):
            if rule.counts[REPLICATING]:
                self.finish(rule.id)
        self.repair()
        self.clean()

    def evaluate(self) -> None:
        """The locks of files that were attached or detached after the rule was made."""
        changed = list(self._holdings.changed)
        self._holdings.changed.clear()
        rules = {rule_id for name in changed for rule_id in self._rules_above(name)}
        for rule_id in sorted(rules):
            self._journal.change("covered", rule_id)

    def _rules_above(self, name: str) -> Iterator[str]:
        yield from self.of_did.get(name, ())
        for parent in self._holdings.dids[name].parents:
            yield from self._rules_above(parent)

    def finish(self, rule_id: str) -> None:
        """All transfers of the rule succeed."""
        self._move(rule_id, REPLICATING, AVAILABLE)

    def stick(self, rule_id: str, error: str) -> None:
        """All transfers of the rule fail."""
        self._move(rule_id, REPLICATING, "UNAVAILABLE")
        changes = {"error": error, "stuck_at": self._holdings.clock(), "state": STUCK}
        self._journal.change("rule_options", rule_id, changes)

    def unstick(self, rule_id: str) -> None:
        """What was stuck is there now."""
        self._move(rule_id, STUCK, AVAILABLE)
        self.repair()

    def _move(self, rule_id: str, before: str, state: str) -> None:
        by_rse: dict[str, list[list[str]]] = {}
        for (name, rse), lock in self.rule(rule_id).locks.items():
            if lock == before:
                by_rse.setdefault(rse, []).append([name, state])
        for rse, rows in by_rse.items():
            self._journal.change("states", rse, rows)

    def repair(self) -> None:
        stuck = [rule.id for rule in self.rules.values() if rule.state == STUCK and not rule.counts[STUCK]]
        for rule_id in stuck:
            self._journal.change("judged", rule_id)

    def clean(self) -> None:
        now = self._holdings.clock()
        for rule in list(self.rules.values()):
            if rule.expires_at is not None and rule.expires_at <= now:
                self._journal.change("rule_gone", rule.id)

    def subscribe(self) -> None:
        """The rules of subscriptions, for each new dataset that they match."""
        fresh = list(self._holdings.fresh)
        for name in fresh:
            for subscription in self.subscriptions.values():
                if _matches(subscription["filter"], name):
                    self._follow(subscription, name)
        if fresh:
            self._journal.change("seen", fresh)

    def _follow(self, subscription: Record, name: str) -> None:
        for wanted in subscription["replication_rules"]:
            asked = {
                **wanted,
                "dids": [{"scope": SCOPE, "name": name}],
                "account": subscription["account"],
                "subscription_id": subscription["id"],
            }
            # Rucio tells its log of a rule that cannot be made, and goes on.
            with suppress(RucioRefusal):
                self.add(asked, ROOT)

    # How changes are taken in

    def _take_rule(self, record: Record, homes: dict[str, list[str]]) -> None:
        rule = Rule(**record, homes=homes)
        self.rules[rule.id] = rule
        self.of_did.setdefault(rule.name, {})[rule.id] = None

    def _take_covered(self, rule_id: str) -> None:
        """Locks for every file below the rule's DID, and none for others."""
        rule = self.rules[rule_id]
        wanted = dict.fromkeys(self._wanted_locks(rule))
        for lock in [lock for lock in rule.locks if lock not in wanted]:
            rule.drop_lock(lock)
            self._keepers.get(lock, {}).pop(rule_id, None)
        for name, rse in wanted:
            if (name, rse) not in rule.locks:
                state = self._holdings.replicas.setdefault(name, {}).setdefault(rse, COPYING)
                rule.set_lock((name, rse), OK if state == AVAILABLE else REPLICATING)
                self._keepers.setdefault((name, rse), {})[rule_id] = None
        if rule.state != STUCK:
            rule.state = rule.judged()

    def _wanted_locks(self, rule: Rule) -> Iterator[Lock]:
        did = self._holdings.dids[rule.name]
        common = rule.homes[rule.name]
        if did.kind == "FILE":
            yield from ((did.name, rse) for rse in common)
        for dataset in self._holdings.datasets_of(did):
            homes = rule.homes.setdefault(dataset.name, common)
            for rse in homes:
                self._holdings.shelves[dataset.name][rse] = None
                yield from ((name, rse) for name in dataset.children)

    def _take_options(self, rule_id: str, options: Record) -> None:
        for key, value in options.items():
            setattr(self.rules[rule_id], key, value)

    def _take_gone(self, rule_id: str) -> None:
        rule = self.rules.pop(rule_id)
        del self.of_did[rule.name][rule_id]
        for lock in rule.locks:
            self._keepers.get(lock, {}).pop(rule_id, None)

    def _take_states(self, rse: str, rows: Iterable[list[str]]) -> None:
        touched: dict[str, None] = {}
        for name, state in rows:
            self._holdings.replicas[name][rse] = state
            for rule_id in self._keepers.get((name, rse), ()):
                lock = OK if state == AVAILABLE else STUCK if state != COPYING else REPLICATING
                self.rules[rule_id].set_lock((name, rse), lock)
                touched[rule_id] = None
        for rule_id in touched:
            rule = self.rules[rule_id]
            # A rule that was stuck waits for a daemon to judge it anew, however many of its locks are well.
            if rule.state != STUCK:
                rule.state = rule.judged()

    def _take_judged(self, rule_id: str) -> None:
        rule = self.rules[rule_id]
        rule.state, rule.error, rule.stuck_at = rule.judged(), None, None

    def _take_limit(self, account: str, rse: str, size: int | None) -> None:
        self.limits[account, rse] = size

    def _take_subscription(self, record: Record) -> None:
        self.subscriptions[record["name"]] = record

    def _take_seen(self, names: list[str]) -> None:
        for name in names:
            self._holdings.fresh.pop(name, None)

    def add_subscription(self, name: str, account: str, options: Record) -> str:
        if name in self.subscriptions:
            message = f"Subscription '{name}' owned by '{account}' already exists!"
            raise RucioRefusal(409, "SubscriptionDuplicate", message)
        record = {
            "id": uuid.uuid4().hex,
            "name": name,
            "account": account,
            "filter": options["filter"],
            "replication_rules": options["replication_rules"],
            "comments": options.get("comments"),
            "made_at": self._holdings.clock(),
        }
        self._journal.change("subscription", record)
        return str(record["id"])


def subscription_row(record: Record, date: Any) -> Record:
    """Filter and rules are JSON inside JSON, as with Rucio."""
    return {
        "id": record["id"],
        "name": record["name"],
        "account": record["account"],
        "state": "ACTIVE",
        "filter": json.dumps(record["filter"]),
        "replication_rules": json.dumps(record["replication_rules"]),
        "comments": record["comments"],
        "policyid": 3,
        "lifetime": None,
        "retroactive": False,
        "expired_at": None,
        "created_at": date,
        "updated_at": date,
        "last_processed": date,
    }


def _matches(wanted: Record, name: str) -> bool:
    """Whether a dataset is one of those that a subscription is for: scope and pattern are looked at here."""
    scopes = wanted.get("scope") or [SCOPE]
    pattern = wanted.get("pattern") or ".*"
    return SCOPE in scopes and re.match(pattern, name) is not None
