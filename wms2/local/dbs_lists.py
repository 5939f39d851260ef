"""The lists of the stand-in DBS, in the words of dbs2go. Each is taken under the lock and given out afterwards."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any

from wms2.local.bulk import ACCESS_TYPES
from wms2.local.dbs_query import (
    BAD_PARAMETERS,
    CONFIGURATION,
    OF_DATASET,
    Query,
    as_query,
    check_parameters,
    fits,
    fitting,
    in_time,
    is_true,
    lumis,
    runs,
    values,
    wanted,
    within,
)
from wms2.local.dbs_records import DbsRecords
from wms2.local.journal import Record, Refused

SERVED_VALID = ("VALID", "PRODUCTION")
SIMULATED = (1, 1)
"""The run of all that is simulated: DBS does not look for all its files."""
DATASET_COLUMNS = (
    "dataset_id", "dataset", "prep_id", "xtcrosssection", "creation_date", "create_by", "last_modification_date",
    "last_modified_by", "primary_ds_name", "primary_ds_type", "processed_ds_name", "data_tier_name",
    "dataset_access_type", "acquisition_era_name", "processing_version", "physics_group_name",
)  # fmt: skip
BLOCK_COLUMNS = (
    "block_id", "block_name", "open_for_writing", "block_size", "file_count", "dataset_id", "dataset",
    "origin_site_name", "creation_date", "create_by", "last_modification_date", "last_modified_by",
)  # fmt: skip
FILE_COLUMNS = (
    "file_id", "logical_file_name", "is_file_valid", "dataset_id", "dataset", "block_id", "block_name", "file_type",
    "check_sum", "event_count", "file_size", "branch_hash_id", "adler32", "md5", "auto_cross_section",
    "creation_date", "create_by", "last_modification_date", "last_modified_by",
)  # fmt: skip


class DbsLists:
    def __init__(self, known: DbsRecords, lock: threading.RLock) -> None:
        self._known = known
        self._lock = lock
        self.calls: dict[str, Callable[[Query], Any]] = {
            "datasets": self._datasets,
            "datasetparents": self._dataset_parents,
            "datasetchildren": self._dataset_children,
            "datasetaccesstypes": self._access_types,
            "blocks": self._blocks,
            "blockorigin": self._blocks_with_origin,
            "blockparents": self._block_parents,
            "blockchildren": self._block_children,
            "blocksummaries": self._block_summaries,
            "blockdump": self._block_dump,
            "files": self._files,
            "fileparents": self._file_parents,
            "filechildren": self._file_children,
            "filelumis": self._file_lumis,
            "filesummaries": self._file_summaries,
            "runs": self._runs,
            "runsummaries": self._run_summaries,
            "primarydatasets": self._primary_datasets,
            "datatiers": self._data_tiers,
            "physicsgroups": self._physics_groups,
            "acquisitioneras": self._acquisition_eras,
            "processingeras": self._processing_eras,
            "releaseversions": self._release_versions,
            "outputconfigs": self._output_configurations,
            "serverinfo": lambda _: [{"server": "dbs2go stand-in", "version": "v0"}],
        }

    def get(self, call: str, query: Query) -> Any:
        check_parameters(call, query)
        with self._lock:
            answer = self.calls[call](query)
        return iter(answer) if isinstance(answer, list) else answer

    def post(self, call: str, body: Any) -> Any:
        """A POST of a list asks what GET asks, with more names than fit a URL."""
        match call:
            case "fileArray":
                return self.get("files", as_query(body))
            case "filelumis" | "blockparents":
                return self.get(call, as_query(body))
            case "datasetlist":
                return self.get("datasets", {"dataset_access_type": "*", **as_query(body)})
        raise Refused(404, f"not implemented api error: POST {call}", 119)

    # Datasets

    def _datasets(self, query: Query) -> Iterator[Record]:
        """Those that are VALID, unless another access type is asked for; `*` is any."""
        asked = {**query, "dataset_access_type": query.get("dataset_access_type") or "VALID"}
        found = [
            record for _, record in sorted(self._known.datasets.items()) if self._is_asked(record, asked)
        ]
        return (_shown(record, query, DATASET_COLUMNS, "dataset") for record in found)

    def _is_asked(self, dataset: Record, query: Query) -> bool:
        name = dataset["dataset"]
        parents = self._known.parents_of_dataset.get(name, [])
        if not (
            fits(dataset, query, OF_DATASET) and in_time(dataset, query) and self._is_made_by(name, query)
        ):
            return False
        if "parent_dataset" in query and query["parent_dataset"] not in parents:
            return False
        if "logical_file_name" in query and not any(self._found_files({**query, "dataset": name})):
            return False
        return not runs(query) or any(self._rows_of_lumis(self._files_of_dataset(name), query))

    def _is_made_by(self, dataset: str, query: Query) -> bool:
        if not any(query.get(key) for key in CONFIGURATION):
            return True
        return any(fits(one, query, CONFIGURATION) for one in self._known.configurations.get(dataset, ()))

    def _files_of_dataset(self, dataset: str) -> list[str]:
        blocks = self._known.blocks_of.get(dataset, ())
        return sorted(name for block in blocks for name in self._known.files_of[block])

    def _dataset_parents(self, query: Query) -> list[Record]:
        name = wanted(query, "dataset")
        return [
            {
                "this_dataset": name,
                "parent_dataset": parent,
                "parent_dataset_id": self._known.datasets[parent]["dataset_id"],
            }
            for parent in self._known.parents_of_dataset.get(name, ())
        ]

    def _dataset_children(self, query: Query) -> list[Record]:
        name = wanted(query, "dataset")
        children = [child for child, parents in self._known.parents_of_dataset.items() if name in parents]
        return [
            {
                "dataset": name,
                "child_dataset": one,
                "child_dataset_id": self._known.datasets[one]["dataset_id"],
            }
            for one in sorted(children)
        ]

    # Blocks

    def _blocks(self, query: Query) -> Iterator[Record]:
        found = self._found_blocks(query)
        return (_shown(record, query, BLOCK_COLUMNS, "block_name") for record in found)

    def _blocks_with_origin(self, query: Query) -> Iterator[Record]:
        return self._blocks({**query, "detail": "1"})

    def _found_blocks(self, query: Query) -> list[Record]:
        wanted(query, "dataset", "block_name", "logical_file_name", "data_tier_name")
        known = self._known
        names: Iterable[str] = known.blocks
        if "logical_file_name" in query:
            names = {file["block_name"] for file in self._found_files(query)}
        elif "dataset" in query and "*" not in query["dataset"]:
            names = known.blocks_of.get(query["dataset"], ())
        return [
            block
            for block in (known.blocks[name] for name in sorted(names))
            if fits(block, query, ("dataset", "block_name", "origin_site_name", "open_for_writing"))
            and fits(known.datasets[block["dataset"]], query, ("data_tier_name",))
            and in_time(block, query)
            and (not runs(query) or any(self._rows_of_lumis(known.files_of[block["block_name"]], query)))
        ]

    def _block_parents(self, query: Query) -> list[Record]:
        wanted(query, "block_name")
        return [
            {"this_block_name": name, "parent_block_name": parent}
            for name in values(query, "block_name")
            for parent in self._known.parents_of_block.get(name, ())
        ]

    def _block_children(self, query: Query) -> list[Record]:
        name = wanted(query, "block_name")
        parents = sorted(self._known.parents_of_block.items())
        return [{"block_name": child} for child, above in parents if name in above]

    def _block_summaries(self, query: Query) -> list[Record]:
        wanted(query, "dataset", "block_name")
        rows = [
            {
                "block_name": block["block_name"],
                "num_file": block["file_count"],
                "file_size": block["block_size"],
                "num_event": sum(
                    self._known.files[lfn].get("event_count") or 0
                    for lfn in self._known.files_of[block["block_name"]]
                ),
                "open_for_writing": block["open_for_writing"],
            }
            for block in self._found_blocks(query)
        ]
        if is_true(query.get("detail")):
            return rows
        return [{key: sum(row[key] for row in rows) for key in ("file_size", "num_event", "num_file")}]

    def _block_dump(self, query: Query) -> Record:
        """The block as bulkblocks takes it."""
        name, known = wanted(query, "block_name"), self._known
        if name not in known.blocks:
            raise Refused(400, f"unable to find block {name}", BAD_PARAMETERS)
        block, lfns = known.blocks[name], known.files_of[name]
        dataset = known.datasets[block["dataset"]]
        parents = known.parents_of_dataset.get(block["dataset"], [])
        configurations = known.configurations.get(block["dataset"], [])
        return {
            "block": {key: block.get(key) for key in BLOCK_COLUMNS},
            "dataset": {key: dataset.get(key) for key in DATASET_COLUMNS},
            "primds": known.primaries.get(dataset["primary_ds_name"], {}),
            "acquisition_era": known.acquisition_eras.get(str(dataset["acquisition_era_name"]), {}),
            "processing_era": known.processing_eras.get(str(dataset["processing_version"]), {}),
            "dataset_conf_list": configurations,
            "file_conf_list": [{"lfn": lfn, **one} for lfn in lfns for one in configurations],
            "files": [{**known.files[lfn], "file_lumi_list": list(known.lumis_of(lfn))} for lfn in lfns],
            "file_parent_list": [
                {"logical_file_name": lfn, "parent_logical_file_name": parent}
                for lfn in lfns
                for parent in known.parents_of_file.get(lfn, ())
            ],
            "block_parent_list": [
                {"this_block_id": block["block_id"], "parent_block": parent}
                for parent in known.parents_of_block.get(name, ())
            ],
            "dataset_parent_list": list(parents),
            "ds_parent_list": [{"parent_dataset": parent} for parent in parents],
        }

    # Files

    def _files(self, query: Query) -> Iterator[Record]:
        wanted(query, "dataset", "block_name", "logical_file_name")
        asked_runs, asked_lumis = runs(query), lumis(query)
        if SIMULATED in asked_runs and not asked_lumis and "logical_file_name" not in query:
            raise Refused(400, "files API does not support run_num=1 when no lumi", BAD_PARAMETERS)
        found = self._found_files(query)
        if asked_runs or asked_lumis:
            names = [file["logical_file_name"] for file in found]
            with_them = {row["logical_file_name"] for row in self._rows_of_lumis(names, query)}
            found = [file for file in found if file["logical_file_name"] in with_them]
        return (_shown(file, query, FILE_COLUMNS, "logical_file_name") for file in found)

    def found_files(self, query: Query) -> list[str]:
        return [file["logical_file_name"] for file in self._found_files(query)]

    def _found_files(self, query: Query) -> list[Record]:
        known = self._known
        found = [known.files[name] for name in self._names_of_files(query) if name in known.files]
        is_there, was_there = fitting(query, ("dataset", "block_name")), fitting(query, ("origin_site_name",))
        valid_only = is_true(query.get("validFileOnly"))
        return [
            file
            for file in found
            if is_there(file)
            and was_there(known.blocks[file["block_name"]])
            and self._is_made_by(file["dataset"], query)
            and (not valid_only or self._is_valid(file))
        ]

    def _names_of_files(self, query: Query) -> Iterable[str]:
        """Those that are named; of a block or a dataset also by a pattern."""
        named = values(query, "logical_file_name")
        if named and not any("*" in name for name in named):
            return named
        if "block_name" in query:
            blocks = values(query, "block_name")
            names = [lfn for one in blocks for lfn in self._known.files_of.get(one, ())]
        else:
            names = self._files_of_dataset(wanted(query, "dataset"))
        return [lfn for lfn in names if not named or any(fnmatchcase(lfn, one) for one in named)]

    def _is_valid(self, file: Record) -> bool:
        access = self._known.datasets[file["dataset"]]["dataset_access_type"]
        return bool(file["is_file_valid"]) and access in SERVED_VALID

    def _file_parents(self, query: Query) -> list[Record]:
        wanted(query, "block_name", "logical_file_name")
        return [
            {
                "logical_file_name": lfn,
                "parent_logical_file_name": parent,
                "parent_file_id": self._known.files[parent]["file_id"],
            }
            for lfn in self.found_files(query)
            for parent in self._known.parents_of_file.get(lfn, ())
        ]

    def _file_children(self, query: Query) -> list[Record]:
        wanted(query, "block_name", "logical_file_name")
        asked = set(self.found_files(query))
        return [
            {
                "logical_file_name": parent,
                "child_logical_file_name": child,
                "child_file_id": self._known.files[child]["file_id"],
            }
            for child, parents in sorted(self._known.parents_of_file.items())
            for parent in parents
            if parent in asked
        ]

    # Runs and lumi sections

    def _rows_of_lumis(self, lfns: Iterable[str], query: Query) -> Iterator[Record]:
        asked_runs, asked_lumis = runs(query), lumis(query)
        return (
            {"logical_file_name": lfn, **lumi}
            for lfn in lfns
            for lumi in self._known.lumis_of(lfn)
            if within(lumi["run_num"], asked_runs) and within(lumi["lumi_section_num"], asked_lumis)
        )

    def _file_lumis(self, query: Query) -> Iterator[Record]:
        wanted(query, "block_name", "logical_file_name")
        return self._rows_of_lumis(self.found_files(query), query)

    def _file_summaries(self, query: Query) -> list[Record]:
        """With a run: of the files that have something of it; events by lumi section where that is asked for."""
        wanted(query, "dataset", "block_name")
        found = {file["logical_file_name"]: file for file in self._found_files(query)}
        rows = list(self._rows_of_lumis(found, query))
        if runs(query):
            found = {row["logical_file_name"]: found[row["logical_file_name"]] for row in rows}
        by_lumi = runs(query) and is_true(query.get("sumOverLumi"))
        return [
            {
                "num_file": len(found),
                "num_event": sum(
                    row.get("event_count") or 0 for row in (rows if by_lumi else found.values())
                ),
                "file_size": sum(file["file_size"] for file in found.values()),
                "num_block": len({file["block_name"] for file in found.values()}),
                "num_lumi": len({(row["run_num"], row["lumi_section_num"]) for row in rows}),
            }
        ]

    def _runs(self, query: Query) -> list[Record]:
        wanted(query, "run_num", "logical_file_name", "block_name", "dataset")
        named = any(key in query for key in ("logical_file_name", "block_name", "dataset"))
        lfns = self.found_files(query) if named else list(self._known.files)
        numbers = {row["run_num"] for row in self._rows_of_lumis(lfns, query)}
        return [{"run_num": number} for number in sorted(numbers)]

    def _run_summaries(self, query: Query) -> list[Record]:
        wanted(query, "run_num")
        lfns = self.found_files(query) if "dataset" in query else list(self._known.files)
        found = [row["lumi_section_num"] for row in self._rows_of_lumis(lfns, query)]
        return [{"max_lumi": max(found, default=None)}]

    # What datasets have in common

    def _access_types(self, query: Query) -> list[Record]:
        rows = [{"dataset_access_type": access} for access in ACCESS_TYPES]
        return [row for row in rows if fits(row, query, row)]

    def _primary_datasets(self, query: Query) -> list[Record]:
        columns = ("primary_ds_name", "primary_ds_type", "creation_date", "create_by")
        rows = [
            {"primary_ds_id": number, **{column: one.get(column) for column in columns}}
            for number, one in enumerate(self._known.primaries.values(), start=1)
        ]
        return [row for row in rows if fits(row, query, columns)]

    def _data_tiers(self, query: Query) -> list[Record]:
        tiers = dict.fromkeys(one["data_tier_name"] for one in self._known.datasets.values())
        rows = [
            {"data_tier_id": number, "data_tier_name": tier} for number, tier in enumerate(tiers, start=1)
        ]
        return [row for row in rows if fits(row, query, ("data_tier_name",))]

    def _physics_groups(self, query: Query) -> list[Record]:
        groups = {one.get("physics_group_name") for one in self._known.datasets.values()}
        rows = [{"physics_group_name": group} for group in sorted(filter(None, groups))]
        return [row for row in rows if fits(row, query, row)]

    def _acquisition_eras(self, query: Query) -> list[Record]:
        eras = sorted(self._known.acquisition_eras.items())
        return [era for _, era in eras if fits(era, query, ("acquisition_era_name",))]

    def _processing_eras(self, query: Query) -> list[Record]:
        eras = self._known.processing_eras.values()
        return [era for era in eras if fits(era, query, ("processing_version",))]

    def _release_versions(self, query: Query) -> list[Record]:
        versions = {one["release_version"] for one in self._output_configurations(query)}
        return [{"release_version": version} for version in sorted(versions)]

    def _output_configurations(self, query: Query) -> list[Record]:
        known = self._known
        names: Iterable[str] = known.configurations
        if "logical_file_name" in query:
            names = {known.files[lfn]["dataset"] for lfn in self.found_files(query)}
        elif "dataset" in query:
            names = [query["dataset"]]
        rows = [one for name in sorted(names) for one in known.configurations.get(name, ())]
        return [row for row in rows if fits(row, query, CONFIGURATION)]


def _shown(record: Record, query: Query, columns: Iterable[str], key: str) -> Record:
    if not is_true(query.get("detail")):
        return {key: record[key]}
    return {column: record.get(column) for column in columns}
