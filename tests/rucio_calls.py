"""What a Rucio 41.5.1 answers on the wire, call by call: a real server and the stand-in are held against it.

The calls are made in their order, as one account, on an empty scope `cms`. RSEs: a Tier-1 with disk and tape, two
Tier-2 sites. `{rule}` and the like are ids that earlier calls gave. What daemons would do is not waited for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote_plus

import httpx

DISK, TAPE, DESY, CERN = RSES = ("T1_US_FNAL_Disk", "T1_US_FNAL_Tape", "T2_DE_DESY", "T2_CH_CERN")
DATASET = "/Prim/Era-proc-v1/GEN-SIM"
BLOCK, EMPTY, LATE, NOWHERE = (f"{DATASET}#{number}" for number in (1, 2, 3, 9))
LFNS = [f"/store/mc/Era/Prim/GEN-SIM/proc-v1/000000/{number}.root" for number in range(6)]
NO_RULE = "0" * 32
JSON, STREAM, TEXT = "application/json", "application/x-json-stream", "text/html; charset=utf-8"
EXISTS, UNKNOWN, MISMATCH = "DataIdentifierAlreadyExists", "DataIdentifierNotFound", "FileConsistencyMismatch"
UNSUPPORTED, BAD_EXPRESSION, NO_LOGIN = "UnsupportedOperation", "InvalidRSEExpression", "CannotAuthenticate"


@dataclass(frozen=True)
class RucioCall:
    """A call and its answer: the status, the exception if it is refused, and some of what it says."""

    what: str
    method: str
    path: str
    status: int
    body: Any = None
    exception: str | None = None
    form: str | None = None
    says: dict[str, Any] = field(default_factory=dict)
    """What the answer, or its first row, has among other things."""
    rows: int | None = None
    keeps: str | None = None
    """Under this name the rule id that comes back is known to later calls."""
    headers: dict[str, str] = field(default_factory=dict)


def did(name: str) -> dict[str, Any]:
    return {"scope": "cms", "name": name}


def file(name: str, **other: Any) -> dict[str, Any]:
    return {**did(name), "bytes": 1000, "adler32": "0a1b2c3d", **other}


def path_of(name: str, call: str = "") -> str:
    return f"dids/cms/{quote_plus(name)}{call}"


def rule(name: str, expression: str, **other: Any) -> dict[str, Any]:
    common = {"account": "{account}", "copies": 1, "grouping": "DATASET", "lifetime": None}
    return {"dids": [did(name)], "rse_expression": expression, **common, **other}


def replicas(rse: str, files: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return {"rse": rse, "files": list(files)}


def state(rse: str, name: str, letter: str) -> dict[str, Any]:
    return replicas(rse, [{**did(name), "state": letter}])


def attachment(name: str, *files: dict[str, Any]) -> dict[str, Any]:
    return {"attachments": [{**did(name), "dids": list(files)}], "ignore_duplicate": True}


IDENTIFIERS = (
    RucioCall("a container", "POST", path_of(DATASET), 201, {"type": "CONTAINER"}, form=TEXT),
    RucioCall("again", "POST", path_of(DATASET), 409, {"type": "CONTAINER"}, EXISTS),
    RucioCall("a block", "POST", path_of(BLOCK), 201, {"type": "DATASET"}),
    RucioCall("another", "POST", path_of(EMPTY), 201, {"type": "DATASET"}),
    RucioCall("as a container", "POST", path_of(BLOCK), 409, {"type": "CONTAINER"}, EXISTS),
    RucioCall("as nothing", "POST", path_of(BLOCK), 400, {}, "KeyError"),
    RucioCall("as nonsense", "POST", path_of(NOWHERE), 400, {"type": "NONSENSE"}, "InvalidObject"),
    RucioCall("as a file", "POST", path_of(NOWHERE), 409, {"type": "FILE"}, UNSUPPORTED),
    RucioCall("no such scope", "POST", "dids/nope/%2Fa%2Fb%2FC", 404, {"type": "DATASET"}, "ScopeNotFound"),
    RucioCall("attach the block", "POST", path_of(DATASET, "/dids"), 201, {"dids": [did(BLOCK)]}),
    RucioCall("again", "POST", path_of(DATASET, "/dids"), 409, {"dids": [did(BLOCK)]}, "DuplicateContent"),
    RucioCall("a stranger", "POST", path_of(DATASET, "/dids"), 404, {"dids": [did(NOWHERE)]}, UNKNOWN),
    RucioCall("to a stranger", "POST", path_of(NOWHERE, "/dids"), 404, {"dids": [did(BLOCK)]}, UNKNOWN),
    RucioCall("no list", "POST", path_of(DATASET, "/dids"), 500, {}),
    RucioCall("replicas", "POST", "replicas", 201, replicas(DISK, [file(lfn) for lfn in LFNS[:3]])),
    RucioCall("again", "POST", "replicas", 201, replicas(DISK, [file(lfn) for lfn in LFNS[:3]])),
    RucioCall("another size is ignored", "POST", "replicas", 201, replicas(DISK, [file(LFNS[0], bytes=7)])),
    RucioCall("no RSE", "POST", "replicas", 404, replicas("T9_XX_No", [file(LFNS[3])]), "RSENotFound"),
    RucioCall("no checksum", "POST", "replicas", 500, replicas(DISK, [file(LFNS[3], adler32="zz")]), "InvalidObject"),
    RucioCall("no files", "POST", "replicas", 500, replicas(DISK, []), "DatabaseException"),
    RucioCall("files", "POST", path_of(BLOCK, "/dids"), 201, {"dids": [file(lfn) for lfn in LFNS[:2]]}),
    RucioCall("again", "POST", path_of(BLOCK, "/dids"), 409, {"dids": [file(LFNS[0])]}, "FileAlreadyExists"),
    RucioCall("not known", "POST", path_of(BLOCK, "/dids"), 404, {"dids": [file(LFNS[4])]}, UNKNOWN),
    RucioCall("none", "POST", path_of(BLOCK, "/dids"), 500, {"dids": []}, "InvalidObject"),
    RucioCall("other size", "POST", path_of(EMPTY, "/dids"), 500, {"dids": [file(LFNS[0], bytes=7)]}, MISMATCH),
    RucioCall("known ones too", "POST", "dids/attachments", 201, attachment(BLOCK, file(LFNS[0]), file(LFNS[1]))),
    RucioCall("other size", "POST", "dids/attachments", 412, attachment(EMPTY, file(LFNS[0], bytes=7)), MISMATCH),
    RucioCall("content", "GET", path_of(BLOCK, "/dids"), 200, rows=2, form=STREAM, says={"bytes": 1000}),
    RucioCall("blocks", "GET", path_of(DATASET, "/dids"), 200, rows=1, says={"name": BLOCK, "bytes": None}),
    RucioCall("files below", "GET", path_of(DATASET, "/files"), 200, rows=2, says={"adler32": "0a1b2c3d"}),
    RucioCall("of a stranger", "GET", path_of(NOWHERE, "/files"), 404, exception=UNKNOWN),
    RucioCall("the block", "GET", path_of(BLOCK), 200, form=JSON, says={"open": True, "length": None}),
    RucioCall("counted", "GET", path_of(BLOCK, "?dynamic_depth=FILE"), 200, says={"length": 2, "bytes": 2000}),
    RucioCall("a file", "GET", path_of(LFNS[0]), 200, says={"type": "FILE", "bytes": 1000}),
    RucioCall("metadata", "GET", path_of(BLOCK, "/meta"), 200, says={"did_type": "DATASET", "is_open": True}),
    RucioCall("a slash too much", "GET", path_of(BLOCK, "/rules/"), 404),
)  # fmt: skip

RULES = (
    RucioCall("of nothing", "GET", path_of(BLOCK, "/rules"), 200, rows=0),
    RucioCall("where it is", "POST", "rules/", 201, rule(BLOCK, DISK, comment="c"), keeps="rule", form=TEXT),
    RucioCall("is well", "GET", "rules/{rule}", 200, form=JSON, says={"state": "OK", "locks_ok_cnt": 2}),
    RucioCall("again", "POST", "rules/", 409, rule(BLOCK, DISK, lifetime=9), "DuplicateRule"),
    RucioCall("elsewhere", "POST", "rules/", 201, rule(BLOCK, DESY), keeps="far"),
    RucioCall("is on its way", "GET", "rules/{far}", 200, says={"state": "REPLICATING", "locks_replicating_cnt": 2}),
    RucioCall("locks", "GET", "rules/{far}/locks", 200, rows=2, says={"state": "REPLICATING", "rse": DESY}),
    RucioCall("all of them", "GET", path_of(BLOCK, "/rules"), 200, rows=2, form=STREAM),
    RucioCall("of a stranger", "GET", path_of(NOWHERE, "/rules"), 404, exception=UNKNOWN),
    RucioCall("of an empty block", "POST", "rules/", 201, rule(EMPTY, DESY), keeps="hollow"),
    RucioCall("is well", "GET", "rules/{hollow}", 200, says={"state": "OK", "locks_ok_cnt": 0}),
    RucioCall("no such RSE", "POST", "rules/", 409, rule(BLOCK, "T9_XX_No"), BAD_EXPRESSION),
    RucioCall("no syntax", "POST", "rules/", 409, rule(BLOCK, "tier=2|"), BAD_EXPRESSION),
    RucioCall("no expression", "POST", "rules/", 409, rule(BLOCK, ""), BAD_EXPRESSION),
    RucioCall("too many copies", "POST", "rules/", 409, rule(BLOCK, DISK, copies=2), "InsufficientTargetRSEs"),
    RucioCall("no copies", "POST", "rules/", 500, rule(BLOCK, CERN, copies=0), "InvalidValueForKey"),
    RucioCall("no such account", "POST", "rules/", 500, rule(BLOCK, CERN, account="nobody"), "AccountNotFound"),
    RucioCall("no such grouping", "POST", "rules/", 409, rule(BLOCK, CERN, grouping="SOME"), "InvalidObject"),
    RucioCall("no such activity", "POST", "rules/", 409, rule(BLOCK, CERN, activity="Rest"), "InvalidObject"),
    RucioCall("a stranger", "POST", "rules/", 404, rule(NOWHERE, DISK), UNKNOWN),
    RucioCall("for nobody", "POST", "rules/", 400, {"dids": [did(BLOCK)], "copies": 1}, "KeyError"),
    RucioCall("not known", "GET", f"rules/{NO_RULE}", 404, exception="RuleNotFound"),
    RucioCall("no id", "GET", "rules/nonsense", 500, exception="RucioException"),
    RucioCall("kept", "PUT", "rules/{rule}", 200, {"options": {"locked": True}}),
    RucioCall("is not deleted", "DELETE", "rules/{rule}", 401, {}, UNSUPPORTED),
    RucioCall("no option", "PUT", "rules/{rule}", 409, {"options": {"nonsense": 1}}, "InputValidationError"),
    RucioCall("no longer kept", "PUT", "rules/{rule}", 200, {"options": {"locked": False}}),
    RucioCall("delete without a body", "DELETE", "rules/{rule}", 400, exception="ValueError"),
    RucioCall("delete", "DELETE", "rules/{rule}", 200, {}),
    RucioCall("again", "DELETE", "rules/{rule}", 200, {}),
    RucioCall("is there for an hour", "GET", "rules/{rule}", 200, says={"state": "OK"}),
    RucioCall("and in the way", "POST", "rules/", 409, rule(BLOCK, DISK), "DuplicateRule"),
    RucioCall("back to life", "PUT", "rules/{rule}", 200, {"options": {"lifetime": None}}),
    RucioCall("for ever", "GET", "rules/{rule}", 200, says={"expires_at": None}),
    RucioCall("delete none", "DELETE", f"rules/{NO_RULE}", 404, {}, "RuleNotFound"),
)  # fmt: skip

TRANSFERS = (
    RucioCall("one has arrived", "PUT", "replicas", 200, state(DESY, LFNS[0], "A")),
    RucioCall("half", "GET", "rules/{far}", 200, says={"locks_ok_cnt": 1, "state": "REPLICATING"}),
    RucioCall("one has failed", "PUT", "replicas", 200, state(DESY, LFNS[1], "U")),
    RucioCall("stuck", "GET", "rules/{far}", 200, says={"locks_stuck_cnt": 1, "state": "STUCK"}),
    RucioCall("it has arrived", "PUT", "replicas", 200, state(DESY, LFNS[1], "A")),
    RucioCall("still stuck", "GET", "rules/{far}", 200, says={"locks_ok_cnt": 2, "state": "STUCK"}),
    RucioCall("never heard of", "PUT", "replicas", 500, state(CERN, LFNS[0], "A"), "ReplicaNotFound"),
    RucioCall("no state", "PUT", "replicas", 500, state(DESY, LFNS[0], "Q"), "InvalidObject"),
    RucioCall("no RSE", "PUT", "replicas", 500, state("T9_XX_No", LFNS[0], "A"), "RSENotFound"),
    RucioCall("another rule", "POST", "rules/", 201, rule(BLOCK, CERN, grouping="ALL"), keeps="third"),
    RucioCall("one", "PUT", "replicas", 200, state(CERN, LFNS[0], "A")),
    RucioCall("and the other", "PUT", "replicas", 200, state(CERN, LFNS[1], "A")),
    RucioCall("is well", "GET", "rules/{third}", 200, says={"locks_ok_cnt": 2, "state": "OK"}),
    RucioCall("a late file", "POST", path_of(BLOCK, "/dids"), 201, {"dids": [file(LFNS[2])]}),
    RucioCall("without a lock", "GET", "rules/{third}", 200, says={"locks_ok_cnt": 2, "state": "OK"}),
    RucioCall("places", "POST", "replicas/list", 200, {"dids": [did(BLOCK)], "all_states": True}, rows=3),
    RucioCall("no places", "POST", "replicas/list", 200, {"dids": [did(NOWHERE)]}, rows=0),
    RucioCall("of nothing", "POST", "replicas/list", 200, {"dids": []}, rows=0),
    RucioCall("no name", "POST", "replicas/list", 400, {"dids": [{"scope": "cms"}]}, "InvalidObject"),
    RucioCall("no RSE", "POST", "replicas/list", 500, {"dids": [did(BLOCK)], "rse_expression": "no"}, BAD_EXPRESSION),
    RucioCall("broken", "POST", "replicas/bad", 201, {"replicas": [{**did(LFNS[0]), "rse": CERN}], "reason": "lost"}),
    RucioCall("remove", "DELETE", "replicas", 401, replicas(DISK, [did(LFNS[0])]), "AccessDenied"),
    RucioCall("datasets", "POST", "replicas/datasets_bulk", 200, {"dids": [did(BLOCK), did(NOWHERE)]}, rows=3),
    RucioCall("looked at", "GET", f"replicas/cms/{quote_plus(BLOCK)}/datasets?deep=True", 200, rows=3, form=STREAM),
    RucioCall("looked at", "GET", f"replicas/cms/{quote_plus(NOWHERE)}/datasets?deep=True", 200, rows=0),
    RucioCall("whose", "GET", path_of(BLOCK, "/parents"), 200, rows=1, says={"name": DATASET, "type": "CONTAINER"}),
    RucioCall("no datasets", "POST", "replicas/datasets_bulk", 400, {"dids": []}, "ValueError"),
    RucioCall("close", "PUT", path_of(BLOCK, "/status"), 200, {"open": False}),
    RucioCall("again", "PUT", path_of(BLOCK, "/status"), 409, {"open": False}, UNSUPPORTED),
    RucioCall("is closed", "GET", path_of(BLOCK), 200, says={"open": False, "length": 3, "bytes": 3000}),
    RucioCall("takes nothing", "POST", "dids/attachments", 409, attachment(BLOCK, file(LFNS[0])), UNSUPPORTED),
    RucioCall("a stranger", "PUT", path_of(NOWHERE, "/status"), 404, {"open": False}, UNKNOWN),
    RucioCall("another status", "PUT", path_of(BLOCK, "/status"), 409, {"asleep": True}, "UnsupportedStatus"),
    RucioCall("detach", "DELETE", path_of(BLOCK, "/dids"), 200, {"dids": [did(LFNS[2])]}),
    RucioCall("again", "DELETE", path_of(BLOCK, "/dids"), 404, {"dids": [did(LFNS[2])]}, UNKNOWN),
)  # fmt: skip

WHOLE_DATASET = (
    RucioCall("all of it", "POST", "rules/", 201, rule(DATASET, DISK), keeps="whole"),
    RucioCall("locks", "GET", "rules/{whole}/locks", 200, rows=2, form=STREAM, says={"name": LFNS[0], "state": "OK"}),
    RucioCall("a late block", "POST", path_of(LATE), 201, {"type": "DATASET"}),
    RucioCall("of it", "POST", path_of(DATASET, "/dids"), 201, {"dids": [did(LATE)]}),
    RucioCall("with a file", "POST", path_of(LATE, "/dids"), 201, {"dids": [file(LFNS[2])]}),
    RucioCall("is well", "GET", "rules/{whole}", 200, says={"state": "OK", "locks_ok_cnt": 2}),
    RucioCall("no lock of that file", "GET", "rules/{whole}/locks", 200, rows=2),
    RucioCall("locks of no rule", "GET", f"rules/{NO_RULE}/locks", 200, rows=0),
)  # fmt: skip

FILLED = f"{DATASET}#4"
SEEN = (
    RucioCall("full", "POST", path_of(FILLED), 201, {"type": "DATASET", "dids": [file(LFNS[5])], "rse": DISK}),
    RucioCall("with its file", "GET", path_of(FILLED, "/files"), 200, rows=1, says={"name": LFNS[5], "bytes": 1000}),
    RucioCall("more", "POST", path_of(FILLED, "/dids"), 201, {"dids": [file(LFNS[4])], "rse": DESY}),
    RucioCall("is there", "POST", "replicas/list", 200, {"dids": [did(LFNS[4])]}, rows=1,
              says={"states": {DESY: "AVAILABLE"}}),
    RucioCall("search", "GET", f"dids/cms/dids/search?type=dataset&name={DATASET}*", 200, rows=4, form=STREAM),
    RucioCall("all of them", "GET", f"dids/cms/dids/search?type=all&name={DATASET}*", 200, rows=5),
    RucioCall("filters", "GET", f"dids/cms/dids/search?type=dataset&filters=[{{'name': '{DATASET}*'}}]", 200, rows=4),
    RucioCall("at length", "GET", f"dids/cms/dids/search?type=container&long=True&name={DATASET}*", 200, rows=1,
              says={"scope": "cms", "name": DATASET, "did_type": "CONTAINER"}),
    RucioCall("no kind", "GET", "dids/cms/dids/search?type=nonsense&name=x", 409, exception=UNSUPPORTED),
    RucioCall("of nobody", "GET", "dids/nope/dids/search?type=dataset&name=x*", 200, rows=0),
    RucioCall("many", "POST", "dids/bulkmeta", 200, {"dids": [did(BLOCK), did(NOWHERE)], "plugin": "DID_COLUMN"},
              rows=1, form=STREAM, says={"did_type": "DATASET", "name": BLOCK}),
    RucioCall("what holds a file", "GET", path_of(LFNS[0], "/associated_rules"), 200, rows=4, form=STREAM),
    RucioCall("what holds none", "GET", path_of(NOWHERE, "/associated_rules"), 404, exception=UNKNOWN),
    RucioCall("locks", "GET", f"locks/cms/{quote_plus(BLOCK)}?did_type=dataset", 200, rows=4, form=STREAM,
              says={"name": BLOCK}),
    RucioCall("of many", "POST", "locks/bulk_locks_for_dids", 200, {"dids": [{**did(BLOCK), "type": "dataset"}]},
              rows=4),
    RucioCall("of nothing", "GET", f"locks/cms/{quote_plus(NOWHERE)}?did_type=dataset", 200, rows=0),
    RucioCall("of a file", "GET", f"locks/cms/{quote_plus(BLOCK)}", 500),
    RucioCall("at no RSE", "GET", "locks/T9_XX_No?did_type=dataset", 404, exception="RSENotFound"),
    RucioCall("history", "GET", f"rules/cms/{quote_plus(BLOCK)}/history", 200, rows=3, form=STREAM),
    RucioCall("analysis", "GET", "rules/{far}/analysis", 200, form=JSON),
    RucioCall("of an account", "GET", "accounts/{account}/rules", 200, form=STREAM, says={"account": "{account}"}),
    RucioCall("of nobody", "GET", "accounts/nobody/rules", 200, rows=0),
    RucioCall("use", "GET", f"accounts/{{account}}/usage/local/{DESY}", 200, rows=1, form=STREAM, says={"rse": DESY}),
    RucioCall("of nobody", "GET", "accounts/nobody/usage/local", 404, exception="AccountNotFound"),
    RucioCall("accounts", "GET", "accounts/", 200, form=STREAM),
    RucioCall("scopes", "GET", "scopes/", 200, form=JSON),
    RucioCall("whose", "GET", "accounts/root/scopes/", 200, form=JSON),
    RucioCall("nobody's", "GET", "accounts/nobody/scopes/", 404, exception="AccountNotFound"),
    RucioCall("what is used", "GET", f"rses/{DESY}/usage", 200, rows=1, form=STREAM, says={"source": "rucio"}),
    RucioCall("of nothing", "GET", "rses/T9_XX_No/usage", 404, exception="RSENotFound"),
    RucioCall("protocols", "GET", f"rses/{DESY}/protocols", 200, form=JSON),
)  # fmt: skip

STORAGE = (
    RucioCall("tier", "GET", "rses/?expression=tier%3D1", 200, rows=2, form=STREAM),
    RucioCall("union", "GET", f"rses/?expression={DISK}%7C{DESY}", 200, rows=2),
    RucioCall("intersection", "GET", "rses/?expression=tier%3D2%26country%3DDE", 200, rows=1, says={"rse": DESY}),
    RucioCall("difference", "GET", f"rses/?expression=tier%3D1%5C{TAPE}", 200, rows=1, says={"rse": DISK}),
    RucioCall("nested", "GET", f"rses/?expression=(tier%3D1%7C{DESY})%5C{TAPE}", 200, rows=2),
    RucioCall("none", "GET", "rses/?expression=tier%3D7", 400, exception=BAD_EXPRESSION),
    RucioCall("no syntax", "GET", "rses/?expression=T2_*", 400, exception=BAD_EXPRESSION),
    RucioCall("one", "GET", f"rses/{DESY}", 200, form=JSON, says={"rse": DESY, "rse_type": "DISK"}),
    RucioCall("not known", "GET", "rses/T9_XX_No", 404, exception="RSENotFound"),
    RucioCall("no subscriptions", "GET", "subscriptions/", 404, exception="SubscriptionNotFound"),
)  # fmt: skip

MANNERS = (
    RucioCall("no token", "GET", path_of(BLOCK), 400, exception="ValueError", headers={"X-Rucio-Auth-Token": ""}),
    RucioCall("bad token", "GET", path_of(BLOCK), 401, None, NO_LOGIN, headers={"X-Rucio-Auth-Token": "x"}),
    RucioCall("no JSON", "GET", path_of(BLOCK, "/dids"), 406, headers={"Accept": JSON}),
    RucioCall("no stream", "GET", "rules/{far}", 406, headers={"Accept": STREAM}),
    RucioCall("no password", "GET", "auth/userpass", 401, exception=NO_LOGIN),
    RucioCall("no certificate", "GET", "auth/x509", 401, exception=NO_LOGIN),
    RucioCall("nowhere", "GET", "nowhere", 404),
)  # fmt: skip

ALL_CALLS = (*IDENTIFIERS, *RULES, *TRANSFERS, *WHOLE_DATASET, *SEEN, *STORAGE, *MANNERS)


def log_in(client: httpx.Client, account: str, user: str, password: str) -> None:
    """The client's calls carry a token from now on."""
    headers = {"X-Rucio-Account": account, "X-Rucio-Username": user, "X-Rucio-Password": password}
    client.headers["X-Rucio-Auth-Token"] = client.get("auth/userpass", headers=headers).headers[
        "X-Rucio-Auth-Token"
    ]


def differences(client: httpx.Client, account: str) -> list[str]:
    """Make all calls; what was answered otherwise, a line each."""
    kept = {"{account}": account}
    found = []
    for call in ALL_CALLS:
        answer = _made(client, call, kept)
        told = _told(call, answer, account)
        if call.keeps and answer.status_code == call.status:
            kept[f"{{{call.keeps}}}"] = answer.json()[0]
        found += [f"{call.what} ({call.method} {call.path}): {line}" for line in told]
    return found


def _made(client: httpx.Client, call: RucioCall, kept: dict[str, str]) -> httpx.Response:
    text = json.dumps(call.body)
    path = call.path
    for name, value in kept.items():
        text, path = text.replace(name, value), path.replace(name, value)
    body = {} if call.body is None else {"json": json.loads(text)}
    return client.request(call.method, path, headers=call.headers, **body)


def _told(call: RucioCall, answer: httpx.Response, account: str) -> list[str]:
    wanted = {"status": call.status, "exception": call.exception or answer.headers.get("ExceptionClass")}
    wanted["form"] = call.form or answer.headers.get("Content-Type")
    said = {
        "status": answer.status_code,
        "exception": answer.headers.get("ExceptionClass"),
        "form": answer.headers.get("Content-Type"),
    }
    if call.exception and said["exception"]:
        said |= {"exception": answer.json()["ExceptionClass"]}
    if call.rows is not None or call.says:
        rows = [json.loads(line) for line in answer.text.splitlines()] if answer.is_success else []
        wanted |= {"rows": len(rows) if call.rows is None else call.rows, **call.says}
        wanted = {key: account if value == "{account}" else value for key, value in wanted.items()}
        said |= {"rows": len(rows), **{key: rows[0].get(key) if rows else None for key in call.says}}
    return [f"{key} is {said[key]!r}, not {value!r}" for key, value in wanted.items() if said[key] != value]
