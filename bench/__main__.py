"""`python -m bench [SUBJECT...] [--sizes N N] [--folder DIR] [--json]`"""

import argparse
import json
import os
import platform
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.case import Case, measure_apart
from bench.subjects import SUBJECTS, cases_of

# A disk that has just removed many files makes new ones slowly for minutes; memory always takes the same time.
IN_MEMORY = Path("/dev/shm")
FIXED = ("case", "size", "unit", "cpu_sec", "wall_sec", "prepared_mb", "peak_mb", "growth")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description="How fast WMS2 is.")
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"one of: {', '.join(SUBJECTS)}")
    parser.add_argument("--sizes", nargs="+", type=int, metavar="N", help="other sizes than the usual ones")
    parser.add_argument(
        "--folder",
        type=Path,
        metavar="DIR",
        default=_in_memory(),
        help="where files are written (%(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args(arguments)
    if unknown := set(given.subjects) - set(SUBJECTS):
        parser.error(f"there is no subject {', '.join(sorted(unknown))}; known are {', '.join(SUBJECTS)}")
    if not given.folder.is_dir():
        parser.error(f"there is no folder {given.folder}; make it first")
    results = {
        subject: [
            result
            for case in cases_of(subject)
            for result in _measured(subject, case, given.sizes, given.folder)
        ]
        for subject in given.subjects or SUBJECTS
    }
    if given.json:
        machine = {"python": platform.python_version(), "cpus": os.cpu_count()}
        print(json.dumps({**machine, **results}, indent=1))
    else:
        for subject, measured in results.items():
            _print_table(subject, measured)


def _in_memory() -> Path:
    return IN_MEMORY if os.access(IN_MEMORY, os.W_OK) else Path(tempfile.gettempdir())


def _measured(subject: str, case: Case, sizes: Sequence[int] | None, below: Path) -> list[dict[str, Any]]:
    """All sizes of a case. Growth is the time that a unit takes, compared with the smallest size: 1 is linear."""
    measured = []
    for size in sorted(sizes or case.sizes):
        print(f"{subject}: {case.name}, {size} {case.unit}", file=sys.stderr)
        measured.append(measure_apart(subject, case, size, below))
    smallest = measured[0]
    for result in measured[1:]:
        ratio = (result["cpu_sec"] / result["size"]) / max(smallest["cpu_sec"] / smallest["size"], 1e-9)
        result["growth"] = round(ratio, 2)
    return measured


def _print_table(subject: str, measured: Sequence[dict[str, Any]]) -> None:
    rows = [("case", "size", "CPU s", "wall s", "input MB", "peak MB", "growth", "made")]
    for result in measured:
        made = ", ".join(
            f"{count} {name.replace('_', ' ')}" for name, count in result.items() if name not in FIXED
        )
        rows.append(
            (
                result["case"],
                f"{result['size']} {result['unit']}",
                f"{result['cpu_sec']:.3f}",
                f"{result['wall_sec']:.3f}",
                f"{result['prepared_mb']:.0f}",
                f"{result['peak_mb']:.0f}",
                f"{result['growth']:.2f}" if "growth" in result else "",
                made,
            )
        )
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    print(f"\n{subject}")
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


if __name__ == "__main__":
    main()
