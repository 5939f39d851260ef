"""What becomes of the input files of a work unit that is given up: excluded, or attempted again in a later round.

And what is said of files that were read, and did not hold what the catalogue says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from wms2.models.failure import FileFailure, ShortFile

READ_ERRORS = frozenset({8020, 8021, 8028})
"""A file could not be opened or read. At one site that is the site's fault, at two it is the file's."""
SITES_TO_EXCLUDE = 2
CORRUPT = "data"
"""The category of failures that confirm that a file is corrupt."""


def excluded_files(own: Collection[str], failures: Iterable[FileFailure]) -> dict[str, str]:
    """Those of the work unit's own files that are excluded, each with the reason; all others are attempted.

    `failures` are those of the whole request: a file may have been planned at another site in an earlier round.
    """
    known: dict[str, list[FileFailure]] = {lfn: [] for lfn in own}
    for failure in failures:
        if failure.lfn in known:
            known[failure.lfn].append(failure)
    reasons = {lfn: reason_to_exclude(found) for lfn, found in known.items()}
    return {lfn: reason for lfn, reason in sorted(reasons.items()) if reason}


def reason_to_exclude(failures: Iterable[FileFailure]) -> str:
    """Why a file with these failures is excluded; nothing when it is not."""
    found = list(failures)
    unread = [failure for failure in found if failure.exit_code in READ_ERRORS and failure.site is not None]
    sites = sorted({failure.site for failure in unread if failure.site is not None})
    if len(sites) >= SITES_TO_EXCLUDE:
        codes = ", ".join(sorted({_code(failure) for failure in unread}))
        return f"could not be read at {' and '.join(sites)}: {codes}"
    corrupt = sorted(_code(failure) for failure in found if failure.category == CORRUPT)
    return f"corrupt: {corrupt[0]}" if corrupt else ""


def short_in_words(round_number: int, files: Sequence[ShortFile]) -> str:
    """That files gave fewer events than the catalogue says: which, and by how many."""
    missing = sum(file.events - file.read_events for file in files)
    first = f"{files[0].lfn} ({files[0].read_events} of {files[0].events})"
    return (
        f"{len(files)} input files of round {round_number} gave {missing} events fewer than the catalogue says, "
        f"for example {first}; `wms2 request errors` lists them"
    )


def _code(failure: FileFailure) -> str:
    return "no exit code" if failure.exit_code is None else f"exit code {failure.exit_code}"
