"""DBS, the catalogue of datasets, blocks and files."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, TypeAdapter

from wms2.adapters.parallel import in_order
from wms2.adapters.service import Answer, Service
from wms2.errors import AlreadyThere, NotFound, Unavailable
from wms2.models.base import Lumi
from wms2.models.block import NewBlock
from wms2.models.lumis import LumiRange, joined
from wms2.models.output import ProducedFile
from wms2.models.plan import InputFile

CALLS_AT_ONCE = 8
BLOCK_EXISTS = 200
INSERT_FAILED = 110
DATABASE_TROUBLE = {102, 106, 112}
"""A transaction that did not begin or end, or a number that was not drawn."""
CLASH = "unique constraint"
"""Of the database: another call, or an earlier try of this one, inserts the same block, era or release just now."""
AUTHOR = "wms2"
NOT_SET = "NOTSET"
# Compared as a whole by DBS: a list of what is accepted would be answered with one JSON list.
STREAM = {"Accept": "application/ndjson"}

Access = Literal["VALID", "INVALID", "PRODUCTION", "DEPRECATED"]
Locate = Callable[[Sequence[str]], Awaitable[Mapping[str, tuple[str, ...]]]]
"""Which sites have which of these blocks; a block that is nowhere may be left out."""


class _Failure(BaseModel):
    reason: str = ""
    message: str = ""
    code: int = 0


@dataclass(slots=True)
class _File:
    logical_file_name: str
    block_name: str
    file_size: int
    event_count: int


@dataclass(slots=True)
class _FileLumi:
    logical_file_name: str
    run_num: int
    lumi_section_num: int


@dataclass(slots=True)
class _FileName:
    logical_file_name: str


@dataclass(slots=True)
class _Dataset:
    dataset_access_type: str


@dataclass(slots=True)
class _Parent:
    parent_dataset: str


_FILES = TypeAdapter(list[_File])
_FILE_NAMES = TypeAdapter(list[_FileName])
_LUMIS = TypeAdapter(list[_FileLumi])
_DATASETS = TypeAdapter(list[_Dataset])
_PARENTS = TypeAdapter(list[_Parent])


class _Listed(NamedTuple):
    lfn: str
    size_bytes: int
    events: int


class Dbs(Service):
    """A DBS server; the URL is what its calls have in common, such as https://host/dbs/prod/global/DBSWriter.

    Whatever changes something may be done again, and gives the same again.
    """

    name = "DBS"

    async def input_files(
        self, dataset: str, locate: Locate, takes_block: Callable[[str], bool] = lambda _: True
    ) -> AsyncGenerator[InputFile, None]:
        """The valid files with their lumi sections, block by block, by name; none for an unknown dataset.

        Blocks that are not taken are not asked about. All files come, or Unavailable says that they did not.
        """
        blocks = await self._listed(dataset, takes_block)
        names = sorted(blocks)
        sites = await locate(names) if names else {}
        async with aclosing(in_order(self._lumis, names, CALLS_AT_ONCE)) as all_lumis:
            async for block, lumis in all_lumis:
                for file in sorted(blocks.pop(block)):
                    yield InputFile(
                        lfn=file.lfn,
                        size_bytes=file.size_bytes,
                        events=file.events,
                        locations=sites.get(block, ()),
                        lumis=lumis.get(file.lfn, ()),
                        block=block,
                    )

    async def events_of_files(self, dataset: str) -> dict[str, int]:
        """How many events each valid file has, which takes one call; none for an unknown dataset."""
        files: dict[str, int] = {}
        async for rows in self._valid_files(dataset):
            files.update((row.logical_file_name, row.event_count) for row in rows)
        return files

    async def _listed(self, dataset: str, takes_block: Callable[[str], bool]) -> dict[str, list[_Listed]]:
        """The valid files of each block that is taken."""
        blocks: dict[str, list[_Listed]] = {}
        not_taken: set[str] = set()
        async with aclosing(self._valid_files(dataset)) as answers:
            async for rows in answers:
                for row in rows:
                    block = row.block_name
                    if block not in blocks:
                        if block in not_taken or not takes_block(block):
                            not_taken.add(block)
                            continue
                        blocks[block] = []
                    blocks[block].append(_Listed(row.logical_file_name, row.file_size, row.event_count))
        return blocks

    def _valid_files(self, dataset: str) -> AsyncGenerator[list[_File], None]:
        query = {"dataset": dataset, "detail": "1", "validFileOnly": "1"}
        return self.stream(_FILES, "GET", "files", params=query, headers=STREAM)

    async def _lumis(self, block: str) -> dict[str, tuple[LumiRange, ...]]:
        """The lumi sections of each file of a block; those of all blocks together would need gigabytes."""
        single: dict[str, list[LumiRange]] = defaultdict(list)
        query = {"block_name": block}
        async for rows in self.stream(_LUMIS, "GET", "filelumis", params=query, headers=STREAM):
            for row in rows:
                lumi = row.lumi_section_num
                single[row.logical_file_name].append((row.run_num, lumi, lumi))
        return {lfn: joined(lumis) for lfn, lumis in single.items()}

    async def block_files(self, block: str) -> list[str]:
        """The names of all files of a block, valid or not; none for an unknown block."""
        lfns: list[str] = []
        query = {"block_name": block}
        async for rows in self.stream(_FILE_NAMES, "GET", "files", params=query, headers=STREAM):
            lfns.extend(row.logical_file_name for row in rows)
        return sorted(lfns)

    async def dataset_parents(self, dataset: str) -> list[str]:
        """The datasets that this one was made from."""
        query = {"dataset": dataset}
        rows = await self.objects(_PARENTS, "GET", "datasetparents", params=query, headers=STREAM)
        return sorted({row.parent_dataset for row in rows})

    async def dataset_access(self, dataset: str) -> str | None:
        """How visible a dataset is, such as PRODUCTION or VALID; None for an unknown one."""
        # Without an access type DBS lists valid datasets only.
        query = {"dataset": dataset, "dataset_access_type": "*", "detail": "1"}
        rows = await self.objects(_DATASETS, "GET", "datasets", params=query, headers=STREAM)
        return rows[0].dataset_access_type if rows else None

    async def insert_block(self, block: NewBlock) -> None:
        """Register a block with all its files. One that is registered already is left as it is."""
        try:
            await self.call("POST", "bulkblocks", json=bulk_block(block, int(time.time())))
        except AlreadyThere as refusal:
            # A file that is in another block may exist as well.
            if block.name not in str(refusal):
                raise

    async def set_dataset_access(self, dataset: str, access: Access) -> None:
        query = {"dataset": dataset, "dataset_access_type": access}
        await self.call("PUT", "datasets", params=query, json={})
        # DBS grants the change of a dataset that it does not have.
        if await self.dataset_access(dataset) != access:
            raise NotFound(f"DBS has no dataset {dataset} that it could make {access}")

    async def set_files_valid(self, lfns: Iterable[str], valid: bool) -> None:
        """Make files visible or invisible. Those that DBS does not know are passed over."""

        async def change(lfn: str) -> None:
            # One file a call: of several names DBS takes none, and changes all files that it has.
            query = {"logical_file_name": lfn, "is_file_valid": str(int(valid))}
            await self.call("PUT", "files", params=query, json={})

        async with aclosing(in_order(change, filter(None, lfns), CALLS_AT_ONCE)) as changes:
            async for _ in changes:
                pass

    async def close_block(self, block: str) -> None:
        query = {"block_name": block, "open_for_writing": "0"}
        await self.call("PUT", "blocks", params=query, json={})

    def _kind(self, answer: Answer) -> type[Exception]:
        failure = _failure(answer)
        conflict = failure.code == INSERT_FAILED and "concurrency error" in failure.reason
        clash = CLASH in f"{failure.message} {failure.reason}".lower()
        if conflict or clash or failure.code in DATABASE_TROUBLE:
            return Unavailable
        # The number of a block that exists has changed between releases of DBS, the words have not.
        if failure.code == BLOCK_EXISTS or "already exists" in failure.reason:
            return AlreadyThere
        if "does not exist" in failure.reason:
            return NotFound
        return super()._kind(answer)

    def _reason(self, answer: Answer) -> str:
        failure = _failure(answer)
        return ": ".join(part for part in (failure.message, failure.reason) if part)


def _failure(answer: Answer) -> _Failure:
    """What DBS says went wrong; an empty one when something else than DBS answered."""
    try:
        return _Failure.model_validate(json.loads(answer.content)[0]["error"])
    except (ValueError, LookupError, TypeError):
        return _Failure()


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
