"""What Rucio says when it says no: a status, the name of its exception, and a sentence."""

from __future__ import annotations

from wms2.local.journal import Refused

LONGEST_HEADER = 125


class RucioRefusal(Refused):
    """A refusal with the name of Rucio's exception, in headers and body."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        line = message.replace("\n", " ")
        short = line if len(line) <= LONGEST_HEADER else f"{line[:LONGEST_HEADER]}..."
        super().__init__(status, message, headers={"ExceptionClass": kind, "ExceptionMessage": short})
        self.told = {"ExceptionClass": kind, "ExceptionMessage": message}


class RucioFault(Refused):
    """What Rucio has not foreseen: status 500, and only the words of Python."""

    def __init__(self, message: str) -> None:
        super().__init__(500, message)


def unknown_did(scope: str, name: str) -> RucioRefusal:
    return RucioRefusal(404, "DataIdentifierNotFound", f"Data identifier '{scope}:{name}' not found")


def unknown_rse(rse: str, status: int = 404) -> RucioRefusal:
    return RucioRefusal(status, "RSENotFound", f"RSE '{rse}' cannot be found in vo 'def'")


def invalid(what: str, why: str, status: int) -> RucioRefusal:
    return RucioRefusal(status, "InvalidObject", f"Problem validating {what}: {why}")
