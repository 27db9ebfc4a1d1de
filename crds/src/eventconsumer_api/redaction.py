"""Removes secrets from text, where an exception or a message is built.

Connection strings, SAS signatures and bearer tokens are recognised by their form, so a secret that a library put into
an error message does not reach logs, events or status.
"""

import re

_SECRETS = re.compile(
    r"(?i)(?P<name>SharedAccessKey|AccountKey|SharedAccessSignature|sig|se?cret|password|access_token|client_assertion)"
    r"(?P<sep>[\"']?\s*[=:]\s*)(?P<quote>[\"']?)(?:SharedAccessSignature\s+)?[^\s;&,\"']+"
)
_BEARER = re.compile(r"(?i)(bearer\s+|SharedAccessSignature\s+)[^\s\"',]+")
HIDDEN = "***"


def redact(text: str) -> str:
    """Return `text` with the values of keys, signatures and tokens replaced by ***."""
    text = _SECRETS.sub(lambda match: f"{match['name']}{match['sep']}{match['quote']}{HIDDEN}", text)
    return _BEARER.sub(lambda match: f"{match[1]}{HIDDEN}", text)
