"""Which names DBS takes, as the lexicon of its writer has them."""

import re
from typing import Any

from wms2.local.journal import Record, Refused

PATTERN_ERROR = 114
WORD = r"[a-zA-Z0-9\-_]"
NAMES = {
    "dataset": (rf"/{WORD}{{1,99}}/[a-zA-Z0-9.\-_]{{1,199}}/[A-Z\-]{{1,50}}", 301),
    "block_name": (rf"/[a-zA-Z]{WORD}+/[a-zA-Z0-9.\-_]+/[A-Z\-_]+#[a-zA-Z0-9.\-_]+", 402),
    # DBS asks for more: which folders follow which. The stack's own input files have fewer folders than it wants.
    "logical_file_name": (rf"/store/(?:{WORD}+/)*{WORD}+\.(?:root|lhe|lhe\.xz)", 500),
    "primary_ds_name": (rf"[a-zA-Z]{WORD}*", 99),
    "primary_ds_type": (r"mc|data|cosmic|test", 99),
    "data_tier_name": (r"[A-Z\-_]+", 99),
    "release_version": (r"CMSSW(?:_\d+){3}(?:_[a-zA-Z0-9_]+)?", 99),
    "acquisition_era_name": (r"[a-zA-Z][a-zA-Z0-9_]*", 99),
    "global_tag": (r"[a-zA-Z0-9\s.\-_:]{1,100}", 100),
}
COMPILED = {key: (re.compile(pattern), longest) for key, (pattern, longest) in NAMES.items()}
UNIX_TIME = re.compile(r"[1-9]\d{9}")


def check_name(key: str, value: Any) -> None:
    """A name of that kind, or a refusal in DBS's words."""
    pattern, longest = COMPILED[key]
    if not isinstance(value, str) or len(value) > longest or not pattern.fullmatch(value):
        raise Refused(400, f"invalid parameter(s): unable to match '{key}' value '{value}'", PATTERN_ERROR)


def check_names(record: Record) -> None:
    """All names in the record that DBS checks, and its dates."""
    for key, value in record.items():
        if key in COMPILED:
            check_name(key, value)
        elif key in ("creation_date", "last_modification_date") and not UNIX_TIME.fullmatch(str(value)):
            raise Refused(400, f"invalid parameter(s): invalid pattern for {key}", PATTERN_ERROR)
