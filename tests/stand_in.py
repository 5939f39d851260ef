"""The stand-in services inside the test's own process."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx

from tests.patience import PATIENCE_SEC
from wms2.adapters.credentials import Password
from wms2.adapters.dbs import Dbs
from wms2.adapters.rucio import Rucio
from wms2.local.rucio import ACCOUNT, PASSWORD, USER
from wms2.local.services import Answers, Server, handler_class
from wms2.models.plan import InputFile


@contextmanager
def served(handler: type[BaseHTTPRequestHandler], kind: type[Server] = Server) -> Iterator[str]:
    """The URL of a server on a free port."""
    server = kind(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def services(home: Path) -> Iterator[str]:
    with served(handler_class(Answers(home))) as url:
        yield url


def make_trouble(url: str, kind: str, **which: Any) -> None:
    """Trouble for the next calls that match, see wms2/local/trouble.py."""
    control(url, "POST", "trouble", {"kind": kind, **which})


def calls_seen(url: str, **which: str) -> list[dict[str, Any]]:
    """The calls that the services at that URL saw: of a service, a method, a path."""
    answer = httpx.get(f"{url}/control/calls", params=which, trust_env=False).raise_for_status()
    return list(answer.json())


def control(url: str, method: str, path: str, body: Any = None) -> Any:
    """What daemons, operators and tests do to the services at that URL."""
    answer = httpx.request(method, f"{url}/control/{path}", json=body, trust_env=False, timeout=PATIENCE_SEC)
    return answer.raise_for_status().json()


def stand_in_rucio(url: str) -> Rucio:
    """The Rucio of the stand-ins at that URL."""
    return rucio_at(f"{url}/rucio")


def rucio_at(url: str) -> Rucio:
    """A Rucio at that very URL, real or not: both know the same account."""
    return Rucio(url, ACCOUNT, Password(USER, PASSWORD))


async def files_of(url: str, dataset: str) -> list[InputFile]:
    """The files of a dataset, as the stand-ins at that URL know them."""
    async with Dbs(f"{url}/dbs") as dbs, stand_in_rucio(url) as rucio:
        return [file async for file in dbs.input_files(dataset, rucio.block_sites)]


def bulk_block(dataset: str, number: int, lfns: Sequence[str], site: str = "T2_DE_DESY") -> dict[str, Any]:
    """A block with such files, as DBS takes it: 100 bytes, 10 events and the lumi sections 1 and 2 each."""
    _, primary, processed, tier = dataset.split("/")
    author = {"create_by": "wms2", "creation_date": 1_700_000_000}
    configuration = {
        "release_version": "CMSSW_14_0_0",
        "pset_hash": "cafe",
        "app_name": "cmsRun",
        "output_module_label": "RAWSIMoutput",
        "global_tag": "140X_v1",
    }
    lumis = [{"run_num": 1, "lumi_section_num": lumi, "event_count": 5} for lumi in (1, 2)]
    file = {
        "file_size": 100,
        "event_count": 10,
        "file_type": "EDM",
        "check_sum": "NOTSET",
        "adler32": "0a1b2c3d",
        "md5": "NOTSET",
        "auto_cross_section": 0.0,
        "file_lumi_list": lumis,
        "last_modified_by": "wms2",
    }
    block = {"block_name": f"{dataset}#{number}", "origin_site_name": site, "open_for_writing": 0, **author}
    return {
        "dataset_conf_list": [configuration],
        "file_conf_list": [{"lfn": lfn, **configuration} for lfn in lfns],
        "files": [{"logical_file_name": lfn, **file} for lfn in lfns],
        "processing_era": {"processing_version": 1, "description": "", "create_by": "wms2"},
        "acquisition_era": {"acquisition_era_name": processed.partition("-")[0], "start_date": 1_700_000_000},
        "primds": {"primary_ds_name": primary, "primary_ds_type": "mc", **author},
        "dataset": {
            "dataset": dataset,
            "processed_ds_name": processed,
            "data_tier_name": tier,
            "physics_group_name": "NoGroup",
            "dataset_access_type": "PRODUCTION",
            **author,
        },
        "block": {**block, "file_count": len(lfns), "block_size": 100 * len(lfns)},
        "file_parent_list": [],
        "block_parent_list": [],
        "dataset_parent_list": [],
        "ds_parent_list": [],
    }
