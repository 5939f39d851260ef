"""DBS, the catalogue of datasets, blocks and files."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable
from types import TracebackType
from typing import Any, Literal, Self

import httpx
from pydantic import BaseModel, TypeAdapter

from wms2.models.base import Lumi
from wms2.models.block import NewBlock
from wms2.models.lumis import LumiRange, joined
from wms2.models.output import ProducedFile
from wms2.models.plan import InputFile

# A big block takes DBS more than a minute to insert.
TIMEOUT = httpx.Timeout(120, connect=10)
CALLS_AT_ONCE = 8
BUSY = {httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS}
BLOCK_EXISTS = 200
INSERT_FAILED = 110
AUTHOR = "wms2"
NOT_SET = "NOTSET"


class DbsUnavailable(Exception):
    """DBS does not answer, or not now; try again later."""


class DbsRefused(Exception):
    """DBS said no, and why."""


class _Failure(BaseModel):
    reason: str = ""
    message: str = ""
    code: int = 0


class _Block(BaseModel):
    block_name: str
    origin_site_name: str


class _File(BaseModel):
    logical_file_name: str
    block_name: str
    file_size: int
    event_count: int


class _FileLumi(BaseModel):
    logical_file_name: str
    run_num: int
    lumi_section_num: int


_BLOCKS = TypeAdapter(list[_Block])
_FILES = TypeAdapter(list[_File])
_LUMIS = TypeAdapter(list[_FileLumi])


class Dbs:
    """A DBS server; the URL is what its calls have in common, such as https://host/dbs/prod/global/DBSWriter."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        # A proxy that the environment names would see credentials, and does not know this machine's services.
        self._client = httpx.AsyncClient(timeout=TIMEOUT, trust_env=False)
        self._calls = asyncio.Semaphore(CALLS_AT_ONCE)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._client.aclose()

    async def dataset_files(
        self, dataset: str, takes_block: Callable[[str], bool] = lambda _: True
    ) -> list[InputFile]:
        """The valid files, by name, each located where its block was made; none for an unknown dataset.

        Files of blocks that are not taken are left out.
        """
        listed = await self._get("files", dataset=dataset, detail="1", validFileOnly="1")
        files = sorted(
            (file for file in _FILES.validate_python(listed) if takes_block(file.block_name)),
            key=lambda file: file.logical_file_name,
        )
        # Asked after the files: the block of each of them is then known.
        blocks = _BLOCKS.validate_python(await self._get("blocks", dataset=dataset, detail="1"))
        sites = {block.block_name: block.origin_site_name for block in blocks}
        lumis = await self._lumis(sorted({file.block_name for file in files}))
        return [
            InputFile(
                lfn=file.logical_file_name,
                size_bytes=file.file_size,
                events=file.event_count,
                locations=(sites[file.block_name],),
                lumis=lumis.get(file.logical_file_name, ()),
                block=file.block_name,
            )
            for file in files
        ]

    async def _lumis(self, blocks: list[str]) -> dict[str, tuple[LumiRange, ...]]:
        """The lumi sections of each file that has any."""
        found = await asyncio.gather(*(self._lumis_of_block(block) for block in blocks))
        return {lfn: lumis for of_block in found for lfn, lumis in of_block.items()}

    async def _lumis_of_block(self, block: str) -> dict[str, tuple[LumiRange, ...]]:
        """Rows become ranges at once: those of all blocks together would need gigabytes."""
        single: dict[str, list[LumiRange]] = defaultdict(list)
        for row in _LUMIS.validate_python(await self._get("filelumis", block_name=block)):
            single[row.logical_file_name].append((row.run_num, row.lumi_section_num, row.lumi_section_num))
        return {lfn: joined(lumis) for lfn, lumis in single.items()}

    async def insert_block(self, block: NewBlock) -> None:
        """Register a block with all its files. One that is registered already is left as it is."""
        answer = await self._call("POST", "bulkblocks", json=bulk_block(block, int(time.time())))
        failure = _failure(answer)
        # The number has changed between releases of DBS, the words have not.
        exists = failure.code == BLOCK_EXISTS or f"Block {block.name} already exists" in failure.reason
        if answer.is_error and not exists:
            raise _refusal(answer, failure)

    async def set_dataset_access(self, dataset: str, access: Literal["VALID", "INVALID"]) -> None:
        query = {"dataset": dataset, "dataset_access_type": access}
        answer = await self._call("PUT", "datasets", params=query, json={})
        if answer.is_error:
            raise _refusal(answer, _failure(answer))

    async def _get(self, path: str, **query: str) -> Any:
        answer = await self._call("GET", path, params=query)
        if answer.is_error:
            raise _refusal(answer, _failure(answer))
        try:
            return answer.json()
        except ValueError:
            raise DbsUnavailable(
                f"DBS at {self._url} answered {path} with something that is no JSON"
            ) from None

    async def _call(self, method: str, path: str, **parts: Any) -> httpx.Response:
        """The answer, be it a refusal; DbsUnavailable when trying again may help."""
        try:
            async with self._calls:
                answer = await self._client.request(method, f"{self._url}/{path}", **parts)
        except httpx.TransportError as error:
            raise DbsUnavailable(
                f"DBS at {self._url} does not answer: {error or type(error).__name__}"
            ) from error
        failure = _failure(answer)
        conflict = failure.code == INSERT_FAILED and "concurrency error" in failure.reason
        if answer.is_server_error or answer.status_code in BUSY or conflict:
            raise DbsUnavailable(f"DBS at {self._url} answered {path} with {answer.status_code}")
        if answer.is_redirect:
            raise DbsRefused(f"DBS at {self._url} sends {path} elsewhere: check its URL")
        return answer


def _failure(answer: httpx.Response) -> _Failure:
    """What DBS says went wrong; an empty one for a success, or when something else than DBS answered."""
    if answer.is_success:
        return _Failure()
    try:
        return _Failure.model_validate(answer.json()[0]["error"])
    except (ValueError, LookupError, TypeError):
        return _Failure()


def _refusal(answer: httpx.Response, failure: _Failure) -> DbsRefused:
    why = ": ".join(part for part in (failure.message, failure.reason) if part) or answer.reason_phrase
    call = f"{answer.request.method} {answer.request.url.path}"
    return DbsRefused(f"DBS refused {call} with {answer.status_code}: {why}")


def bulk_block(block: NewBlock, now: int) -> dict[str, Any]:
    """The block in the words of DBS."""
    _, primary, processed, tier = block.dataset.split("/")
    made = block.provenance
    configuration = {
        "release_version": made.release,
        "pset_hash": made.configuration,
        "app_name": "cmsRun",
        "output_module_label": made.module,
        "global_tag": made.global_tag,
    }
    author = {"create_by": AUTHOR, "creation_date": now}
    return {
        "dataset_conf_list": [configuration],
        "file_conf_list": [{"lfn": file.lfn, **configuration} for file in block.files],
        "files": [_file(file, now) for file in block.files],
        "processing_era": {
            "processing_version": int(processed.rpartition("-v")[2]),
            "description": AUTHOR,
            "create_by": AUTHOR,
        },
        "acquisition_era": {
            "acquisition_era_name": processed.partition("-")[0],
            "start_date": now,
            "description": AUTHOR,
            "create_by": AUTHOR,
        },
        "primds": {"primary_ds_name": primary, "primary_ds_type": made.primary_type, **author},
        "dataset": {
            "dataset": block.dataset,
            "processed_ds_name": processed,
            "data_tier_name": tier,
            "physics_group_name": "NoGroup",
            "dataset_access_type": "PRODUCTION",
            "last_modified_by": AUTHOR,
            "last_modification_date": now,
            **author,
        },
        "block": {
            "block_name": block.name,
            "origin_site_name": block.site,
            "open_for_writing": 0,
            "file_count": len(block.files),
            "block_size": sum(file.size_bytes for file in block.files),
            **author,
        },
        "file_parent_list": [
            {"logical_file_name": file.lfn, "parent_logical_file_name": parent}
            for file in block.files
            for parent in file.parents
        ],
        "block_parent_list": [],
        "dataset_parent_list": [made.parent] if made.parent else [],
        "ds_parent_list": [],
    }


def _file(file: ProducedFile, now: int) -> dict[str, Any]:
    return {
        "logical_file_name": file.lfn,
        "file_size": file.size_bytes,
        "event_count": file.events,
        "file_type": "EDM",
        "check_sum": NOT_SET,
        "adler32": file.adler32,
        "md5": NOT_SET,
        "auto_cross_section": 0.0,
        # Said of every file: DBS takes silence for invalid as soon as one file's validity is said.
        "is_file_valid": 1,
        "last_modified_by": AUTHOR,
        "last_modification_date": now,
        "file_lumi_list": [_lumi(lumi) for lumi in file.lumis],
    }


def _lumi(lumi: Lumi) -> dict[str, int]:
    known = {} if lumi.events is None else {"event_count": lumi.events}
    return {"run_num": lumi.run, "lumi_section_num": lumi.lumi, **known}
