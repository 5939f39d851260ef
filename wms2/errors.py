"""What goes wrong in ways that have a name: mistakes that a person can mend, and what other systems say."""


class UserError(Exception):
    """What is wrong and what to do, in one sentence.

    The command line prints it as it is, without a stack trace, and exits with 2.
    """


class Missing(UserError):
    """What a person asked for does not exist."""


class Contradiction(UserError):
    """What a person wants does not fit what is recorded, or where a request stands now."""


class Silent(UserError):
    """A server or a worker of ours does not answer now; asking again may help."""


class Unavailable(Exception):
    """Another system does not do what it was asked for, now; the sentence says which and why. Trying again may help."""

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """After how many seconds it wants to be asked again, where it said so."""


class Refused(Exception):
    """Another system said no; the sentence says which, to what and why. Trying again does not help."""


class AlreadyThere(Refused):
    """What was to be made exists."""


class NotFound(Refused):
    """What was asked for, or was to be changed, does not exist."""


class Unauthorised(Refused):
    """It does not know who we are, or we may not do this; the sentence says which setting to look at."""


class BrokenRequest(Refused):
    """It does not understand what it was asked for: a mistake of WMS2, or of what it was given."""
