"""Everything that WMS2 asks of Rucio, asked by rucio-clients.

Arguments: the URL, account, user, password and the file to write.
"""

import json
import sys
from pathlib import Path

from rucio.client import Client
from rucio.common.exception import RucioException

url, account, user, password, said_file = sys.argv[1:]
DISK, TAPE, DESY = "T1_US_FNAL_Disk", "T1_US_FNAL_Tape", "T2_DE_DESY"
dataset = "/Prim/Era-proc-v1/GEN-SIM"
block = f"{dataset}#1"
names = [f"/store/mc/Era/Prim/GEN-SIM/proc-v1/000000/{number}.root" for number in range(3)]
files = [{"scope": "cms", "name": name, "bytes": 1000, "adler32": "0a1b2c3d"} for name in names]
dids = [{"scope": "cms", "name": block}]


def refused(call, *arguments, **named):
    try:
        call(*arguments, **named)
    except RucioException as error:
        return type(error).__name__
    return None


def states(client):
    return {row["name"]: row["states"] for row in client.list_replicas(dids, all_states=True)}


def seen(client, rule):
    told = client.get_replication_rule(rule)
    return [told["state"], told["locks_ok_cnt"], told["locks_replicating_cnt"], told["locks_stuck_cnt"]]


client = Client(
    rucio_host=url,
    auth_host=url,
    account=account,
    auth_type="userpass",
    creds={"username": user, "password": password},
)
said = {
    "ping": client.ping()["version"],
    "whoami": client.whoami()["account"],
    "made": [client.add_container("cms", dataset), client.add_dataset("cms", block)],
    "made again": refused(client.add_did, "cms", block, "DATASET"),
    "attached": client.attach_dids("cms", dataset, dids),
    "attached again": refused(client.attach_dids, "cms", dataset, dids),
    "replicas": [client.add_replicas(DISK, files[:2]), client.add_replicas(DISK, files[:2])],
    "no RSE": refused(client.add_replicas, "T9_XX_No", files),
    "files": client.attach_dids("cms", block, files[:2]),
    "files again": refused(client.attach_dids, "cms", block, files[:2]),
    "in bulk": client.attach_dids_to_dids(
        [{"scope": "cms", "name": block, "dids": files[:2]}], ignore_duplicate=True
    ),
    "content": [row["name"] for row in client.list_content("cms", dataset)],
    "listed": [row["name"] for row in client.list_files("cms", block)],
    "block": client.get_did("cms", block, dynamic_depth="FILE"),
    "metadata": client.get_metadata("cms", block)["did_type"],
}
(source,) = client.add_replication_rule(
    dids, 1, DISK, grouping="DATASET", activity="Production Output", comment="c"
)
(copy,) = client.add_replication_rule(dids, 1, DESY, lifetime=1000)
said |= {
    "rule again": refused(client.add_replication_rule, dids, 1, DISK),
    "bad expression": refused(client.add_replication_rule, dids, 1, "nonsense"),
    "no quota": [
        client.set_local_account_limit(account, TAPE, 10),
        refused(client.add_replication_rule, dids, 1, TAPE),
    ],
    "source": seen(client, source),
    "copy": seen(client, copy),
    "rules": sorted(row["rse_expression"] for row in client.list_did_rules("cms", block)),
    "all rules": len(list(client.list_replication_rules({"account": account}))),
    "locks": [row["state"] for row in client.list_replica_locks(copy)]
    if hasattr(client, "list_replica_locks")
    else [],
    "states": states(client),
}
arrived = [{"scope": "cms", "name": name, "state": "A"} for name in names[:2]]
said |= {
    "arrived": client.update_replicas_states(DESY, arrived),
    "copied": seen(client, copy),
    "where": sorted((row["rse"], row["state"]) for row in client.list_dataset_replicas("cms", block)),
    "where in bulk": sorted(row["rse"] for row in client.list_dataset_replicas_bulk(dids)),
    "closed": client.close("cms", block),
    "closed again": refused(client.close, "cms", block),
    "too late": refused(client.attach_dids, "cms", block, files[2:]),
    "locked": client.update_replication_rule(source, {"locked": True}),
    "kept": refused(client.delete_replication_rule, source),
    "unlocked": client.update_replication_rule(source, {"locked": False}),
    "deleted": client.delete_replication_rule(source),
    "expires": client.get_replication_rule(source)["expires_at"] is not None,
    "no rule": refused(client.get_replication_rule, "0" * 32),
    "rses": sorted(row["rse"] for row in client.list_rses("tier=1")),
    "no rses": refused(lambda: list(client.list_rses("tier=7"))),
    "limits": client.get_local_account_limits(account)[TAPE],
    "bad": client.declare_bad_file_replicas([{"scope": "cms", "name": names[0], "rse": DESY}], "lost"),
    "detached": client.detach_dids("cms", dataset, dids),
    "empty": list(client.list_content("cms", dataset)),
    "nobody": refused(client.get_did, "cms", "/No/Such-v1/RAW"),
}
other = f"{dataset}#2"
found = {"name": f"{dataset}*"}
said |= {
    "full": client.add_dataset("cms", other, files=files[2:], rse=DISK),
    "its files": [row["name"] for row in client.list_files("cms", other)],
    "found": sorted(client.list_dids("cms", found, did_type="dataset")),
    "found at length": [
        row["did_type"] for row in client.list_dids("cms", [found], did_type="container", long=True)
    ],
    "of many": [row["name"] for row in client.get_metadata_bulk(dids)],
    "parents": [row["name"] for row in client.list_parent_dids("cms", names[0])],
    "holds a file": sorted(
        row["rse_expression"] for row in client.list_associated_rules_for_file("cms", names[0])
    ),
    "holds the block": sorted((row["rse"], row["state"]) for row in client.get_dataset_locks("cms", block)),
    "of the account": len(list(client.list_account_rules(account))),
    "use": [row["files"] for row in client.get_local_account_usage(account, DESY)],
    "accounts": account in {row["account"] for row in client.list_accounts()},
    "scopes": client.list_scopes(),
    "deep": [row["rse"] for row in client.list_dataset_replicas("cms", other, deep=True)],
    "storage": [row["rse"] for row in client.get_rse_usage(DISK)],
    "protocols": [row["scheme"] for row in client.get_protocols(DISK)],
}
Path(said_file).write_text(json.dumps(said))
