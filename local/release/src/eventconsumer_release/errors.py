"""The error of the release; its message names the object, the cause and the remedy."""


class ReleaseError(Exception):
    """The release cannot be built; shown to the user without a traceback."""
