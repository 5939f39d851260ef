"""Stage-out: outputs go to the site's storage, and come back off it when the job fails after all."""

from __future__ import annotations

from pathlib import Path

from sandbox.failure import STAGE_OUT_DIFFERS, STAGE_OUT_FAILED, STAGE_OUT_TIMEOUT, Failure
from sandbox.report import Report
from sandbox.storage import Place, Storage
from sandbox.transfer import Differs, TransferError, TransferTimeout, adler32


class StageOut:
    """Keeps the report's list of what is on the storage and not yet accepted."""

    def __init__(self, storage: Storage, report: Report, folder: Path) -> None:
        self._storage = storage
        self._report = report
        self._folder = folder
        self._places: list[Place] = []

    def put(self, source: Path, lfn: str) -> str:
        """Copy a file to the storage under its logical name; its adler32."""
        checksum = adler32(source)
        place = self._storage.for_writing(lfn)
        # Named before it exists: a job that is killed while copying still leaves word of it.
        self._report.leave(lfn, "its stage-out had begun when the job ended")
        self._report.write(self._folder)
        self._places.append(place)
        try:
            place.transfer.put(source, place.pfn, checksum)
        except TransferTimeout as error:
            raise Failure(STAGE_OUT_TIMEOUT, str(error)) from None
        except Differs as error:
            raise Failure(STAGE_OUT_DIFFERS, str(error)) from None
        except TransferError as error:
            raise Failure(STAGE_OUT_FAILED, str(error)) from None
        return checksum

    def keep(self) -> None:
        """The job succeeded: its outputs stay."""
        for place in self._places:
            self._report.no_longer_left(place.lfn)

    def undo(self) -> None:
        """The job failed: nothing of it stays, and what cannot be removed is named in the report."""
        for place in self._places:
            self._report.no_longer_left(place.lfn)
            try:
                place.transfer.remove(place.pfn)
            except TransferError as error:
                self._report.leave(place.lfn, str(error))
