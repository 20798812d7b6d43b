"""What a user can mend."""


class FitError(ValueError):
    """A run cannot start or go on; the message says what to do, and no traceback is shown."""
