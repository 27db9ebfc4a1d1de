"""Removes secrets from text, where an exception or a message is built.

Connection strings, SAS signatures and tokens are recognised by their form, so a secret that a library put into an error
message does not reach logs, events or status. A URL inside another URL is percent-encoded, and JSON inside a JSON text
has escaped quotes: both forms are recognised too.
"""

import re

_QUOTE = r"(?:\\*[\"']|%(?:25)*22)?"
_SECRETS = re.compile(
    r"(?i)(?P<name>SharedAccessKey|AccountKey|SharedAccessSignature|sig|se?cret|password|access_token|client_assertion)"
    rf"(?P<sep>{_QUOTE}\s*(?:[=:]|%(?:25)*3[AD])\s*)(?P<quote>{_QUOTE})"
    r"(?:SharedAccessSignature\s+)?(?:[^\s;&,\"'\\]|\\(?![\"']))+"
)
_BEARER = re.compile(r"(?i)(bearer\s+|SharedAccessSignature(?:\s|%(?:25)*20)+)[^\s\"',]+")
# Base64url of a JSON object begins with eyJ; the shortest header, {"alg":"none"}, has 19 characters. A message may be
# cut, so the number of parts does not matter. Sources: RFC 7515, section 3.1, and RFC 7519, section 6.
_PARTS = re.compile(r"[A-Za-z0-9_.-]+")
_HEADER, _HEADER_CHARS = "eyJ", 19
HIDDEN = "***"


def redact(text: str) -> str:
    """Return `text` with the values of keys, signatures and tokens replaced by ***."""
    text = _SECRETS.sub(lambda match: f"{match['name']}{match['sep']}{match['quote']}{HIDDEN}", text)
    text = _BEARER.sub(lambda match: f"{match[1]}{HIDDEN}", text)
    return _PARTS.sub(_without_token, text) if _HEADER in text else text


def _without_token(match: re.Match[str]) -> str:
    """Parts between dots, up to the header of a JSON Web Token. One pattern for all would take quadratic time."""
    parts = match[0].split(".")
    for index, part in enumerate(parts[:-1]):
        start = part.find(_HEADER)
        if 0 <= start <= len(part) - _HEADER_CHARS:
            return ".".join((*parts[:index], part[:start] + HIDDEN))
    return match[0]
