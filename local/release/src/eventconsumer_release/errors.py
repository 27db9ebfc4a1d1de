"""The one error of the release: a message that names the thing, the cause and the remedy."""


class ReleaseError(Exception):
    """The release cannot be built; shown to the user without a traceback."""
