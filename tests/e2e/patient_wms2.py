"""`wms2` with the patience of a test, run as a process of its own: a busy machine's worker needs long to answer."""

from datetime import timedelta

from tests.patience import PATIENCE_SEC
from wms2.cli import program
from wms2.door import asking, inspection

if __name__ == "__main__":
    for module in (asking, inspection):
        module.ANSWER_TIMEOUT = timedelta(seconds=PATIENCE_SEC)
    program()
