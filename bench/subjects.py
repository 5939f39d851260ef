"""What can be measured."""

from collections.abc import Mapping, Sequence

from bench import planning
from bench.case import Case

SUBJECTS: Mapping[str, Sequence[Case]] = {"planning": planning.CASES}
