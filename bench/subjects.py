"""What can be measured."""

from collections.abc import Sequence
from importlib import import_module

from bench.case import Case

SUBJECTS = ("planning", "post", "outputs", "scale", "api")
"""Each is a module beside this one."""


def cases_of(subject: str) -> Sequence[Case]:
    """Only this subject is imported: what the others need would count as memory of its cases."""
    cases: Sequence[Case] = import_module(f"bench.{subject}").CASES
    return cases
