"""How the stand-in services remember: every change is a line of one file, written before it is answered."""

import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wms2.errors import UserError

Record = dict[str, Any]
GENERIC = 100
"""DBS's own number of an error that has no other."""


class Refused(Exception):
    """A call that the service turns down, with the HTTP status it answers and DBS's own number."""

    def __init__(self, status: int, message: str, code: int = GENERIC, headers: Record | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.headers: dict[str, str] = headers or {}


class Journal:
    """Changes, a line each: a catalogue of 100,000 files cannot be written anew for each of a thousand blocks.

    Whoever remembers something tells by `learn` how it takes in each kind of change; `replay` then brings back what
    was written before. All who read or change do so under the one `lock`.
    """

    def __init__(self, file: Path) -> None:
        self.lock = threading.RLock()
        self._file = file
        self._takes: dict[str, Callable[..., None]] = {}

    def learn(self, **takes: Callable[..., None]) -> None:
        self._takes.update(takes)

    def replay(self) -> None:
        """Bring back what was written. A file of another version of WMS2 is refused in words: it may be removed."""
        for number, line in enumerate(self._lines(), start=1):
            try:
                kind, *what = json.loads(line)
                self._takes[kind](*what)
            except (KeyError, TypeError, ValueError) as error:
                raise UserError(
                    f"{self._file}, line {number} is not as this version of WMS2 writes it ({error!r}): "
                    "remove the file, and the stand-in services begin with empty hands."
                ) from error

    def change(self, kind: str, *what: Any) -> None:
        with self.lock:
            with self._file.open("a", encoding="utf-8") as lines:
                lines.write(json.dumps([kind, *what]) + "\n")
            self._takes[kind](*what)

    def _lines(self) -> Iterator[bytes]:
        """A change each. A last line that a crash cut off was answered to nobody, and is taken away."""
        if not self._file.exists():
            return
        end = 0
        with self._file.open("rb") as lines:
            for line in lines:
                if not line.endswith(b"\n"):
                    break
                end += len(line)
                yield line
        os.truncate(self._file, end)
