"""Removes secrets from text, where an exception or a message is built.

Connection strings, signatures, tokens, headers, passwords in URLs, private keys and bare keys are recognised by their
form, so a secret that a library put into an error message does not reach logs, events or status. A URL inside another
URL is percent-encoded, and JSON inside a JSON text has escaped quotes: both forms are recognised too.

A digest of 32 or 64 bytes in base64 has the form of a key of Event Hubs or storage, and is hidden like one, except
behind its name (`sha256-`, `sha-512=`). Digests in hexadecimal, of other lengths (MD5) and ETags stay.

The time grows with the length only: each repetition is bounded, or cannot begin again in what it has read.
"""

import base64
import binascii
import re

_QUOTE = r"(?:\\*[\"']|%(?:25)*22)?"
_SEPARATOR = rf"{_QUOTE}\s*(?:[=:]|%(?:25)*3[AD])\s*"
_VALUE = r"(?:[^\s;&,\"'\\]|\\(?![\"']))+"
_NAMES = "|".join(
    (
        # Of connection strings, of queries (OAuth, SAS), of properties. A name may end with one of these.
        "Shared(?:Access)?Key", "SharedAccessSignature", "sig", "se?cret", "password", "passwd", "pwd", "passphrase",
        "client_assertion",
        # Behind a word, `token: ` is the end of a sentence: `no key token: create it`.
        rf"token(?={_QUOTE}\s*=|%(?:25)*3D|\\*[\"']|%(?:25)*22)|(?<=[a-z0-9][-_])token",
        "(?:account|access|api|functions|host|master|private|sas|secret|signing|storage|subscription)[-_]?key",
        # Headers for credentials, such as X-Shop-Key; x-opt-partition-key is an annotation of events.
        r"(?<![a-z0-9])x-(?!opt-)[a-z0-9-]{0,60}(?:key|auth|signature|credentials?)",
    )
)  # fmt: skip
_SECRETS = re.compile(
    rf"(?i)(?P<name>{_NAMES})(?P<sep>{_SEPARATOR})(?P<quote>{_QUOTE})(?:SharedAccessSignature\s+)?{_VALUE}"
)
# A scheme and its credentials: two words, as in `Authorization: Bearer <token>`; a word with a colon at its end is the
# next header. Source: RFC 9110, section 11.6.2.
_AUTHORIZATION = re.compile(rf"(?i)(authorization{_SEPARATOR}{_QUOTE}){_VALUE}(?:[ \t]+(?!{_VALUE}:(?:\s|$)){_VALUE})?")
_BEARER = re.compile(r"(?i)(bearer\s+|SharedAccessSignature(?:\s|%(?:25)*20)+)[^\s\"',]+")
# Source: learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
_SHARED_KEY = re.compile(r"(?i)(SharedKey(?:Lite)?\s+[a-z0-9-]{1,64}:)[a-z0-9+/]+={0,2}")
# Base64 of <user>:<password>. Source: RFC 7617.
_BASIC = re.compile(r"(?i)(basic\s+)([a-z0-9+/]{4,}={0,2})")
# <user>:<password>@ behind the scheme of a URL, and the same percent-encoded, once or more. Digits and a slash are
# a port: a password has no slash (RFC 3986, section 3.2.1).
_URL = re.compile(r"(://[^\s/?#:@\"'<>]{0,256}+:)(?!\d{1,5}[/?#])[^\s@\"'<>]{1,256}+(?=@)")
_ENCODED_URL = re.compile(
    r"(?i)(%(?P<times>(?:25)*)3A(?:%(?P=times)2F){2}(?:[^\s/?#:@\"'<>%]|%(?!(?P=times)(?:3A|2F|40))){0,256}+%(?P=times)3A)"
    r"(?!\d{1,5}%(?P=times)(?:2F|3F|23))(?:[^\s@\"'<>%]|%(?!(?P=times)40)){1,256}+(?=%(?P=times)40)"
)
# Source: RFC 7468. A message may be cut: then the rest of it is the key.
_PEM = re.compile(
    r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(?:(?!-----END).)*(-----END [A-Z0-9 ]{0,60}-----)?",
    re.DOTALL,
)
# Base64 of 64 bytes, a key of storage, and of 32, a key of Event Hubs, alone.
_CHARACTER = r"(?:[A-Za-z0-9+/]|%(?:25)*2[BbFf])"
_PAD = r"(?:=|%(?:25)*3[Dd])"
_KEY = re.compile(
    r"(?:(?<![A-Za-z0-9+/])|(?<=%[0-9A-Fa-f]{2})|(?<=%25[0-9A-Fa-f]{2}))(?<!(?i:sha256)[-:=])(?<!(?i:sha512)[-:=])(?<!(?i:sha-256)[:=])(?<!(?i:sha-512)[:=])"
    rf"(?:{_CHARACTER}{{86}}{_PAD}{_PAD}|{_CHARACTER}{{43}}{_PAD})(?![A-Za-z0-9+/=])"
)
# Base64url of a JSON object begins with eyJ; the shortest header, {"alg":"none"}, has 19 characters. A message may be
# cut, so the number of parts does not matter. Sources: RFC 7515, section 3.1, and RFC 7519, section 6.
_PARTS = re.compile(r"[A-Za-z0-9_.-]+")
_HEADER, _HEADER_CHARS = "eyJ", 19
HIDDEN = "***"


def redact(text: str) -> str:
    """Return `text` with the values of keys, signatures, passwords and tokens replaced by ***."""
    text = _PEM.sub(lambda match: f"{match[1]}{HIDDEN}{match[2] or ''}", text)
    text = _SECRETS.sub(lambda match: f"{match['name']}{match['sep']}{match['quote']}{HIDDEN}", text)
    text = _SHARED_KEY.sub(lambda match: f"{match[1]}{HIDDEN}", text)
    text = _BEARER.sub(lambda match: f"{match[1]}{HIDDEN}", text)
    text = _BASIC.sub(_without_password, text)
    for pattern in (_AUTHORIZATION, _URL, _ENCODED_URL):
        text = pattern.sub(lambda match: f"{match[1]}{HIDDEN}", text)
    text = _KEY.sub(HIDDEN, text)
    return _PARTS.sub(_without_token, text) if _HEADER in text else text


def _without_password(match: re.Match[str]) -> str:
    """Words such as `basic authentication` stay: they are not <user>:<password> in base64."""
    try:
        decoded = base64.b64decode(match[2], validate=True)
    except binascii.Error:
        return match[0]
    return f"{match[1]}{HIDDEN}" if b":" in decoded else match[0]


def _without_token(match: re.Match[str]) -> str:
    """Parts between dots, up to the header of a JSON Web Token. One pattern for all would take quadratic time."""
    parts = match[0].split(".")
    for index, part in enumerate(parts[:-1]):
        start = part.find(_HEADER)
        if 0 <= start <= len(part) - _HEADER_CHARS:
            return ".".join((*parts[:index], part[:start] + HIDDEN))
    return match[0]
