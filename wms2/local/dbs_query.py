"""What is asked of the stand-in DBS: which parameters a list takes, and how their values are written."""

from __future__ import annotations

import json
from ast import literal_eval
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any

from wms2.local.journal import Record, Refused

Query = dict[str, str]
Ranges = list[tuple[int, int]]
BAD_PARAMETERS = 118
DATES = ("cdate", "ldate", "min_cdate", "max_cdate", "min_ldate", "max_ldate")
CONFIGURATION = ("release_version", "pset_hash", "app_name", "output_module_label", "global_tag")
OF_DATASET = (
    "dataset", "dataset_id", "dataset_access_type", "primary_ds_name", "primary_ds_type", "processed_ds_name",
    "data_tier_name", "acquisition_era_name", "processing_version", "physics_group_name", "prep_id", "create_by",
    "last_modified_by",
)  # fmt: skip
PARAMETERS: dict[str, tuple[str, ...]] = {
    "datasets": (*OF_DATASET, *CONFIGURATION, *DATES, "parent_dataset", "logical_file_name", "run_num", "detail"),
    "datasetparents": ("dataset",),
    "datasetchildren": ("dataset",),
    "datasetaccesstypes": ("dataset_access_type",),
    "blocks": (
        "dataset", "block_name", "data_tier_name", "origin_site_name", "logical_file_name", "run_num", *DATES,
        "open_for_writing", "detail",
    ),
    "blockorigin": ("origin_site_name", "dataset", "block_name"),
    "blockparents": ("block_name",),
    "blockchildren": ("block_name",),
    "blocksummaries": ("block_name", "dataset", "detail"),
    "blockdump": ("block_name",),
    "files": (
        "dataset", "block_name", "logical_file_name", *CONFIGURATION[:4], "run_num", "origin_site_name", "lumi_list",
        "detail", "validFileOnly", "sumOverLumi",
    ),
    "fileparents": ("logical_file_name", "block_name"),
    "filechildren": ("logical_file_name", "block_name"),
    "filelumis": ("logical_file_name", "block_name", "run_num", "validFileOnly"),
    "filesummaries": ("block_name", "dataset", "run_num", "validFileOnly", "sumOverLumi"),
    "runs": ("run_num", "logical_file_name", "block_name", "dataset"),
    "runsummaries": ("dataset", "run_num"),
    "primarydatasets": ("primary_ds_name", "primary_ds_type"),
    "datatiers": ("data_tier_name",),
    "physicsgroups": ("physics_group_name",),
    "acquisitioneras": ("acquisition_era_name",),
    "processingeras": ("processing_version",),
    "releaseversions": ("release_version", "dataset", "logical_file_name"),
    "outputconfigs": ("dataset", "logical_file_name", *CONFIGURATION),
    "serverinfo": (),
}  # fmt: skip
"""What each list may be asked by. What DBS takes besides is refused too: to pass it over would be a wrong answer."""


def check_parameters(call: str, query: Query) -> None:
    if stranger := next((key for key in query if key not in PARAMETERS[call]), None):
        raise Refused(400, f"parameter '{stranger}' is not accepted by '{call}' API", BAD_PARAMETERS)


def as_query(body: Any) -> Query:
    """What a POST of a list carries, as a query would."""
    if not isinstance(body, dict):
        raise Refused(400, "the body is no JSON object", BAD_PARAMETERS)
    return {key: json.dumps(value) if isinstance(value, list) else str(value) for key, value in body.items()}


def is_true(value: str | None) -> bool:
    return value in ("1", "true", "True")


def values(query: Query, key: str) -> list[str]:
    """One value or many: a list comes as JSON, or as Python writes it, which is how dbs3-client sends it."""
    value = query.get(key, "")
    if not value.startswith("["):
        return [value] if value else []
    return [str(one) for one in _evaluated(key, value)]


def wanted(query: Query, *names: str) -> str:
    """The first of these that is given; one of them must be."""
    value = next((query[name] for name in names if name in query), None)
    if value is None:
        raise Refused(400, f"name one of: {', '.join(names)}", BAD_PARAMETERS)
    return value


def runs(query: Query) -> Ranges:
    """From which run to which: `5`, `5-9`, or a list of such."""
    try:
        pairs = [value.partition("-") for value in values(query, "run_num") if value != "-1"]
        return [(int(first), int(last or first)) for first, _, last in pairs]
    except ValueError:
        raise Refused(400, "run_num is no run, no range and no list of them", BAD_PARAMETERS) from None


def lumis(query: Query) -> Ranges:
    """From which lumi section to which: a list of numbers, or of pairs."""
    try:
        listed = _evaluated("lumi_list", query.get("lumi_list") or "[]")
        return [
            (int(one[0]), int(one[1])) if isinstance(one, list) else (int(one), int(one)) for one in listed
        ]
    except (TypeError, ValueError, IndexError):
        raise Refused(400, "lumi_list is no list of lumi sections", BAD_PARAMETERS) from None


def within(number: int, ranges: Ranges) -> bool:
    """Where no range is given, every number is."""
    return not ranges or any(first <= number <= last for first, last in ranges)


def fitting(query: Query, keys: Iterable[str]) -> Callable[[Record], bool]:
    """Whether a record is as the query says it is, as far as that speaks of these; a star stands for anything."""
    asked = [(key, values(query, key)) for key in keys if query.get(key)]
    return lambda record: all(
        any(fnmatchcase(str(record.get(key)), value) for value in allowed) for key, allowed in asked
    )


def fits(record: Record, query: Query, keys: Iterable[str]) -> bool:
    return fitting(query, keys)(record)


def in_time(record: Record, query: Query) -> bool:
    """Whether it was made, and changed for the last time, when the query says."""
    given = {key: int(query[key]) for key in DATES if query.get(key, "0").isdecimal() and key in query}
    for letter, key in (("c", "creation_date"), ("l", "last_modification_date")):
        when = record.get(key) or 0
        earliest, latest = given.get(f"min_{letter}date"), given.get(f"max_{letter}date")
        if (earliest and when < earliest) or (latest and when > latest):
            return False
        if given.get(f"{letter}date", when) != when:
            return False
    return True


def _evaluated(key: str, value: str) -> list[Any]:
    try:
        return list(literal_eval(value))
    except (ValueError, SyntaxError, TypeError):
        raise Refused(400, f"{key} is no list", BAD_PARAMETERS) from None
