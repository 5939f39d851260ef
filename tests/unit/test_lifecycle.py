import pytest

from wms2.core.lifecycle import objection
from wms2.models.actions import Action
from wms2.models.request import RequestStatus

TABLE = """
         new submitted queued pilot_running planning active partial held stopping resubmitting completed failed aborted
release  yes -         -      -             -        -      -       yes  -        -            -         -      -
stop     -   -         -      yes           -        yes    -       -    -        -            -         -      -
hold     -   yes       yes    yes           yes      yes    -       -    -        yes          -         -      -
fail     -   -         -      -             -        -      -       yes  -        -            -         -      -
abort    yes yes       yes    yes           yes      yes    -       yes  -        yes          -         -      -
size     yes yes       yes    yes           yes      yes    yes     yes  yes      yes          -         -      -
priority yes yes       yes    yes           yes      yes    yes     yes  yes      yes          -         -      -
restart  -   yes       yes    yes           yes      yes    -       yes  -        yes          -         -      -
drop     -   -         -      -             -        -      -       yes  -        -            -         -      -
judge    yes yes       yes    yes           yes      yes    yes     yes  yes      yes          -         -      -
host_lost -  -         yes    yes           yes      yes    yes     yes  yes      yes          -         -      -
"""
HEAD, *ROWS = [line.split() for line in TABLE.strip().splitlines()]
CELLS = [(row[0], status, cell == "yes") for row in ROWS for status, cell in zip(HEAD, row[1:], strict=True)]


def test_the_table_speaks_of_every_action_and_every_status() -> None:
    assert {row[0] for row in ROWS} == set(Action)
    assert set(HEAD) == set(RequestStatus)


@pytest.mark.parametrize(("action", "status", "fits"), CELLS)
def test_an_action_fits_a_status_as_the_table_says(action: str, status: str, fits: bool) -> None:
    why = objection(Action(action), RequestStatus(status))
    assert (why is None) == fits
    if why is not None:
        assert status in why
