"""Pile-up: the files that a step mixes into its events, by their addresses at this site.

The lists are long, up to hundreds of thousands of files. They are read where they are needed and never kept: the job's
memory belongs to its steps.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Sequence

from sandbox.failure import NO_MANIFEST, NO_PILEUP, Failure
from sandbox.fjr import InputEntry
from sandbox.job import Job
from sandbox.manifest import PILEUP, PileUpList, Step, load_pileup

PARAMETERS = ("mc_pileup", "data_pileup")
SECONDARY = "secondary"
LARGEST_UINT32 = 2**32 - 1


class PileUp:
    """What one step mixes in: the datasets that it names, or else the one that the request names for all steps."""

    def __init__(self, job: Job, step: Step, opens_addresses: bool) -> None:
        self._job = job
        self._step = step
        self._opens_addresses = opens_addresses
        self._datasets = {kind: _names(step.parameters.get(kind)) for kind in PARAMETERS}
        if not any(self._datasets.values()) and job.manifest.secondary_input_dataset:
            self._datasets[SECONDARY] = [job.manifest.secondary_input_dataset]

    def __bool__(self) -> bool:
        return any(self._datasets.values())

    def describe(self, seed: int) -> dict[str, Any]:
        """What the step is told, by kind of pile-up. A job begins to read where its seed says."""
        told: Dict[str, Any] = {}
        for kind, lists in self._lists().items():
            events = sum(item.events for item in lists)
            told[kind] = {
                "files": [address for _, address in self._addresses(lists)],
                "logical": self._are_elsewhere(lists),
                "skip_events": seed % min(events, LARGEST_UINT32),
            }
        return told

    def read_in(self, entries: Sequence[InputEntry]) -> list[str]:
        """The LFNs of the files that the step says it has read."""
        told = {entry.lfn or entry.pfn.replace("file:", "", 1) for entry in entries}
        names = told | {name[name.rfind("/store/") :] for name in told if "/store/" in name}
        return self._those(names.__contains__) if names else []

    def named_in(self, text: str) -> list[str]:
        """The LFNs of the files that a text speaks of."""
        return self._those(lambda name: name in text)

    def _those(self, are_meant: Callable[[str], bool]) -> list[str]:
        """By their logical names, which most addresses end with; where none is found, by their addresses."""
        kinds = list(self._lists().values())
        found = {lfn for lists in kinds for item in lists for lfn in item.files if are_meant(lfn)}
        pairs = (pair for lists in kinds for pair in self._addresses(lists))
        return sorted(found or {lfn for lfn, address in pairs if are_meant(address)})

    def _lists(self) -> dict[str, list[PileUpList]]:
        """A job without the list of what it mixes in never had a chance, here or elsewhere."""
        if not self:
            return {}
        known = load_pileup(self._job.folder)
        for dataset in (name for names in self._datasets.values() for name in names):
            if dataset not in known:
                raise Failure(
                    NO_MANIFEST,
                    f"step {self._step.name} mixes in {dataset}, whose files are not in {PILEUP}: the round must be "
                    "planned by a worker, which asks Rucio and DBS",
                    step=self._step.name,
                )
        return {kind: [known[name] for name in names] for kind, names in self._datasets.items() if names}

    def _are_elsewhere(self, lists: Sequence[PileUpList]) -> bool:
        return not all(self._job.site in item.sites for item in lists)

    def _addresses(self, lists: Sequence[PileUpList]) -> Iterator[tuple[str, str]]:
        """What the step opens in place; pile-up is never copied.

        Where a request's site lists are trusted some of it may be elsewhere: CMSSW finds it by its logical names.
        """
        by_name = self._opens_addresses and self._are_elsewhere(lists)
        for item in lists:
            for lfn in item.files:
                address = lfn if by_name else self._address(item, lfn)
                if address is None:
                    message = f"step {self._step.name} cannot open pile-up such as {lfn} at {self._job.site}"
                    raise Failure(NO_PILEUP, message, step=self._step.name)
                yield lfn, address

    def _address(self, item: PileUpList, lfn: str) -> str | None:
        if self._job.site not in item.sites:
            return None
        return self._job.storage.address(lfn, self._opens_addresses)


def _names(value: Any) -> list[str]:
    names = value if isinstance(value, list) else [value]
    return list(dict.fromkeys(str(name) for name in names if name))
