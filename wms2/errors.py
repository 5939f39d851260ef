"""Mistakes that a person can mend."""


class UserError(Exception):
    """What is wrong and what to do, in one sentence.

    The command line prints it as it is, without a stack trace, and exits with 2.
    """


class Unavailable(Exception):
    """Another system does not do what it was asked for, now; the sentence says which and why. Trying again may help."""
