"""What became of requests whose record and whose workflow did not agree."""

from __future__ import annotations

from wms2.models.base import Count, Model


class Reconciled(Model):
    """`started` had a record and no workflow yet; `lost` had a workflow that is gone before its request ended."""

    living: Count
    started: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()

    def __str__(self) -> str:
        words = [f"{self.living} requests live"]
        words += [f"started {', '.join(self.started)}"] if self.started else []
        words += [f"without a workflow: {', '.join(self.lost)}"] if self.lost else []
        return "; ".join(words)
