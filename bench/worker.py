"""The process of one case: `python -m bench.worker SUBJECT CASE SIZE` prints what was measured."""

import json
import sys

from bench.case import measure
from bench.subjects import SUBJECTS


def main(subject: str, name: str, size: str) -> None:
    case = next(case for case in SUBJECTS[subject] if case.name == name)
    print(json.dumps(measure(case, int(size))))


if __name__ == "__main__":
    main(*sys.argv[1:])
