"""Planning a round, from the dataset to the files on disk, and reading how far it is."""

from bench import files, splitting

CASES = (*splitting.CASES, *files.CASES)
