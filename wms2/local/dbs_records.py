"""What the stand-in DBS knows, by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from wms2.local.journal import Record


@dataclass
class DbsRecords:
    """Who reads or changes them holds the journal's lock."""

    datasets: dict[str, Record] = field(default_factory=dict)
    blocks: dict[str, Record] = field(default_factory=dict)
    files: dict[str, Record] = field(default_factory=dict)
    blocks_of: dict[str, list[str]] = field(default_factory=dict)
    files_of: dict[str, list[str]] = field(default_factory=dict)
    lumis: dict[str, str] = field(default_factory=dict)
    """As text: as a million small mappings they would take half a gigabyte."""
    parents_of_file: dict[str, list[str]] = field(default_factory=dict)
    parents_of_block: dict[str, list[str]] = field(default_factory=dict)
    parents_of_dataset: dict[str, list[str]] = field(default_factory=dict)
    primaries: dict[str, Record] = field(default_factory=dict)
    acquisition_eras: dict[str, Record] = field(default_factory=dict)
    processing_eras: dict[str, Record] = field(default_factory=dict)
    configurations: dict[str, list[Record]] = field(default_factory=dict)
    """Of each dataset."""

    def lumis_of(self, lfn: str) -> Iterator[Record]:
        for lumi in json.loads(self.lumis[lfn]):
            yield {"event_count": None, **lumi}
