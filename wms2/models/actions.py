"""What a person can ask of a request."""

from enum import StrEnum


class Action(StrEnum):
    RELEASE = "release"
    STOP = "stop"
    HOLD = "hold"
    FAIL = "fail"
    ABORT = "abort"
