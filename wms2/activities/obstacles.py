"""What a service does not take, and what goes on all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wms2.errors import Refused, Unavailable

IN_VAIN = 3
"""When so many in a row fail, the others are not tried."""


class Obstacles:
    """Blocks or datasets that fail. The others go on, unless several in a row say that it is the service."""

    def __init__(self) -> None:
        self._first: Refused | Unavailable | None = None
        self._in_a_row = 0

    @contextmanager
    def passed_over(self) -> Iterator[None]:
        try:
            yield
            self._in_a_row = 0
        except (Refused, Unavailable) as error:
            self._first = self._first or error
            self._in_a_row += 1
            if self._in_a_row == IN_VAIN:
                self.tell()

    def tell(self) -> None:
        """To be called in the end: raises the first of them."""
        if self._first is not None:
            raise self._first
