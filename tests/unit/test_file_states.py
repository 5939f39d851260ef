"""What becomes of the files of a work unit that failed."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from wms2.core.file_states import READ_ERRORS, excluded_files
from wms2.models.failure import FileFailure

SITES = ["T1_US_FNAL", "T2_DE_DESY", "T2_US_Purdue"]
FILES = [f"/store/data/{number}.root" for number in range(4)]


def failure(
    lfn: str = FILES[0],
    site: str | None = SITES[0],
    code: int | None = 8021,
    category: str = "infrastructure",
) -> FileFailure:
    return FileFailure(
        work_unit=0, node="proc_000000", cluster=1, lfn=lfn, site=site, category=category, exit_code=code
    )


failures = st.lists(
    st.builds(
        failure,
        lfn=st.sampled_from(FILES),
        site=st.sampled_from([*SITES, None]),
        code=st.sampled_from([8020, 8021, 8028, 8022, 60311, None]),
        category=st.sampled_from(["infrastructure", "data", "permanent"]),
    )
)


def test_a_file_that_failed_at_one_site_is_attempted_again() -> None:
    assert excluded_files(FILES, [failure(), failure(code=8020)]) == {}


def test_a_file_that_failed_at_two_sites_is_excluded_and_the_reason_names_them() -> None:
    found = excluded_files(FILES, [failure(), failure(site=SITES[1], code=8028)])
    assert found == {
        FILES[0]: "could not be read at T1_US_FNAL and T2_DE_DESY: exit code 8021, exit code 8028"
    }


def test_a_file_whose_corruption_is_confirmed_is_excluded_at_the_first_site() -> None:
    found = excluded_files(FILES, [failure(category="data", code=8022)])
    assert found == {FILES[0]: "corrupt: exit code 8022"}


def test_a_file_that_was_called_corrupt_because_two_sites_could_not_read_it_is_excluded_for_that() -> None:
    found = excluded_files(FILES, [failure(), failure(site=SITES[1], category="data")])
    assert found == {FILES[0]: "could not be read at T1_US_FNAL and T2_DE_DESY: exit code 8021"}


def test_sites_that_nobody_knows_are_not_two_sites() -> None:
    assert excluded_files(FILES, [failure(site=None), failure()]) == {}


def test_failures_that_have_nothing_to_do_with_reading_exclude_nothing() -> None:
    assert excluded_files(FILES, [failure(code=60311), failure(site=SITES[1], code=60311)]) == {}


@given(failures)
def test_a_file_is_excluded_exactly_when_it_is_corrupt_or_unread_at_two_sites(
    known: list[FileFailure],
) -> None:
    expected = set()
    for lfn in FILES:
        own = [one for one in known if one.lfn == lfn]
        sites = {one.site for one in own if one.exit_code in READ_ERRORS and one.site}
        if any(one.category == "data" for one in own) or len(sites) >= 2:
            expected.add(lfn)
    assert excluded_files(FILES, known).keys() == expected


@given(failures, st.randoms())
def test_neither_the_order_of_failures_nor_hearing_of_them_twice_matters(
    known: list[FileFailure], random: Random
) -> None:
    shuffled = [*known, *known]
    random.shuffle(shuffled)
    assert excluded_files(FILES, known) == excluded_files(FILES, shuffled)


@given(failures, st.sets(st.sampled_from(FILES)))
def test_only_files_of_the_work_unit_itself_are_ever_excluded(
    known: list[FileFailure], own: set[str]
) -> None:
    assert excluded_files(own, known).keys() <= own


@given(failures, failures)
def test_more_failures_never_bring_a_file_back(known: list[FileFailure], more: list[FileFailure]) -> None:
    assert excluded_files(FILES, known).keys() <= excluded_files(FILES, [*known, *more]).keys()
