"""`wms2`: the hand of operators and requestors."""

import os

from wms2.cli import ctrl_c


def program() -> None:
    """What the `wms2` command runs: what the command line says, and then an end without Python's own tidying up.

    Threads of Temporal's SDK may still be at work, and Python now and then aborts over them while it tidies up.
    """
    ctrl_c.leaves_at_once()
    # Not before: whoever presses Ctrl-C while this is imported would be shown where Python was.
    from wms2.cli.main import whole_run

    os._exit(whole_run())
