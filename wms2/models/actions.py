"""What a person can ask of a request."""

from enum import StrEnum


class Action(StrEnum):
    RELEASE = "release"
    STOP = "stop"
    HOLD = "hold"
    FAIL = "fail"
    ABORT = "abort"
    SIZE = "size"
    PRIORITY = "priority"
    DROP = "drop"
    RESTART = "restart"
    JUDGE = "judge"
    HOST_LOST = "host_lost"
