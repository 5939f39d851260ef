"""Why a job failed: the long exit codes that the wrapper itself gives, and the exception that carries one."""

from __future__ import annotations

from typing import Sequence

BAD_ARGUMENTS = 7000
NO_MANIFEST = 7001
BAD_MANIFEST = 7002
INPUT_NOT_OPENED = 8020
INPUT_NOT_READ = 8021
EVENTS_LOST = 8023
NO_PILEUP = 8029
NO_SOFTWARE = 10031
NO_SOFTWARE_SETUP = 10032
NO_RELEASE = 10034
BAD_ENVIRONMENT = 11003
NO_PROJECT = 50513
BAD_STEP_REPORT = 50115
TOO_MUCH_MEMORY = 50660
SCRATCH_FULL = 50662
TOO_LONG = 50664
STALLED = 50665
KILLED = 50669
OUTPUT_MISSING = 60302
STAGE_OUT_FAILED = 60307
STAGE_OUT_DIFFERS = 60311
NO_STORAGE = 60315
STAGE_OUT_TIMEOUT = 60317
OUTCOME_UNKNOWN = 99501
DONE_ALREADY = 99502
UNKNOWN = 99999

# What a step reports when it could not open, read or make sense of an input file.
INPUT_CODES = frozenset({8016, 8020, 8021, 8022, 8027, 8028, 8034})

# What may go better in a second try on the same machine.
PASSING_CODES = frozenset({8020, 8021, 8028})


class Failure(Exception):
    """The job cannot go on; `code` says what kind of failure it is, `message` what happened, for a person."""

    def __init__(
        self,
        code: int,
        message: str,
        step: str | None = None,
        bad_input_files: Sequence[str] = (),
        log_tail: Sequence[str] = (),
        bad_pileup_files: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.step = step
        self.bad_input_files = list(bad_input_files)
        self.log_tail = list(log_tail)
        self.bad_pileup_files = list(bad_pileup_files)


def exit_status(code: int) -> int:
    """The eight bits of a long exit code that a process can return; a failure never becomes 0."""
    if code == 0:
        return 0
    return code if 0 < code < 256 else (code % 256 or 1)
