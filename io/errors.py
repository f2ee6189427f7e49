"""Errors that callers of this package may catch."""


class DataError(ValueError):
    """Raised if input or a store cannot be used. The message names the place and the error, and says what to do."""


class StoreFailed(DataError):
    """A store does not answer as it should. Nothing is wrong with the data, and the same call may succeed later."""


class AccessDenied(DataError):
    """A store refuses a request, because credentials are missing, wrong or insufficient."""


class Locked(Exception):
    """Another process is writing to the same corpus, run or model."""


class DataWarning(UserWarning):
    """Something in the data was left out or changed, or may be a mistake. The command line shows these warnings."""
