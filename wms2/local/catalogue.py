"""What the stand-in services remember, all of it in one journal."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from wms2.local.bulk import read_bulk
from wms2.local.cric import Cric
from wms2.local.dbs import Dbs
from wms2.local.holdings import Holdings
from wms2.local.journal import Journal, Record
from wms2.local.journal import Refused as Refused
from wms2.local.reqmgr2 import ReqMgr2
from wms2.local.rules import Rules
from wms2.local.storage import Storage

FILE = "catalogue.jsonl"


class Catalogue:
    """The memory of DBS, ReqMgr2, CRIC and Rucio. Safe for threads; every change is on disk before it is answered."""

    def __init__(self, home: Path, clock: Callable[[], float] = time.time) -> None:
        folder = home / "services"
        folder.mkdir(exist_ok=True)
        self.journal = Journal(folder / FILE)
        self.storage = Storage(home, self.journal)
        self.dbs = Dbs(self.journal)
        self.reqmgr2 = ReqMgr2(self.journal, clock)
        self.cric = Cric(self.journal, self.storage)
        self.holdings = Holdings(self.journal, self.storage, clock)
        self.rules = Rules(self.holdings)
        self.journal.learn(block=self._take_block)
        self.journal.replay()

    def _take_block(self, body: Record) -> None:
        bulk = read_bulk(body)
        self.dbs.take_block(bulk)
        self.holdings.inherit(bulk, bulk.block.get("creation_date") or 0)
