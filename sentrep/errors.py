"""The one exception for input that the user can mend."""


class InputError(ValueError):
    """Bad input from the user: a file, a line, a key or a value.

    The message is one clear sentence that names what is wrong, where, and what to do about it. The command line prints
    the message alone (no traceback) and exits with status 1.

    Example:
        >>> raise InputError("corpus.csv, line 7: 2 columns where the header has 3; quote the comma or mend the row")
        Traceback (most recent call last):
        ...
        sentrep.errors.InputError: corpus.csv, line 7: 2 columns where the header has 3; quote the comma or mend the row
    """
