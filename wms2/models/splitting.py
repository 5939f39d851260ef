"""How the work of a request is cut into jobs: the algorithms and what each of them can be told."""

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from wms2.models.base import Flag, Model, PositiveCount

JOB_TIME_LIMIT_SEC = 48 * 3600


class SplittingAlgo(StrEnum):
    FILE_BASED = "FileBased"
    EVENT_BASED = "EventBased"
    LUMI_BASED = "LumiBased"
    EVENT_AWARE_LUMI = "EventAwareLumiBased"

    @property
    def keeps_lumis_whole(self) -> bool:
        """Whether a lumi section is read by one job, also where it spans files."""
        return self in (SplittingAlgo.LUMI_BASED, SplittingAlgo.EVENT_AWARE_LUMI)


class FileBased(Model):
    files_per_job: PositiveCount = Field(5, description="input files a job")


class EventBased(Model):
    events_per_job: PositiveCount = Field(100_000, description="events a job")
    events_per_lumi: PositiveCount = Field(
        default_factory=lambda known: known["events_per_job"],
        description="simulation: events a lumi section; a job begins a new one",
    )


def generated_lumis(events: int, per_job: int, per_lumi: int) -> int:
    """How many lumi sections a simulation has: a job begins a new one."""
    jobs, rest = divmod(events, per_job)
    return jobs * -(-per_job // per_lumi) + -(-rest // per_lumi)


class LumiBased(Model):
    lumis_per_job: PositiveCount = Field(8, description="lumi sections a job")
    halt_at_file_boundaries: Flag = Field(False, description="a job never crosses into the next file")
    split_on_run: Flag = Field(True, description="a job never crosses into the next run")


class EventAwareLumiBased(Model):
    events_per_job: PositiveCount = Field(100_000, description="events a job aims at, in whole lumi sections")
    halt_at_file_boundaries: Flag = Field(False, description="a job never crosses into the next file")
    split_on_run: Flag = Field(True, description="a job never crosses into the next run")
    job_time_limit_sec: PositiveCount = Field(
        JOB_TIME_LIMIT_SEC, description="a single lumi section expected to take longer is refused at planning"
    )


SplittingParams = FileBased | EventBased | LumiBased | EventAwareLumiBased

PARAMS: Mapping[SplittingAlgo, type[SplittingParams]] = {
    SplittingAlgo.FILE_BASED: FileBased,
    SplittingAlgo.EVENT_BASED: EventBased,
    SplittingAlgo.LUMI_BASED: LumiBased,
    SplittingAlgo.EVENT_AWARE_LUMI: EventAwareLumiBased,
}
