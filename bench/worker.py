"""The process of one case: `python -m bench.worker SUBJECT CASE SIZE FOLDER` prints what was measured."""

import json
import sys
from pathlib import Path

from bench.case import measure
from bench.subjects import cases_of


def main(subject: str, name: str, size: str, below: str) -> None:
    case = next(case for case in cases_of(subject) if case.name == name)
    print(json.dumps(measure(case, int(size), Path(below))))


if __name__ == "__main__":
    main(*sys.argv[1:])
