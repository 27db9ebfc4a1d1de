"""Texts with secrets, for every part that removes them: `redact`, and the layout of Spark's log.

None is real. Keys have the length and alphabet of Azure's.
"""

import base64
from typing import NamedTuple
from urllib.parse import quote


class Leak(NamedTuple):
    """A text that must not be shown as it is.

    Attributes:
        name: A name for the test.
        text: The text.
        secret: The part of it that must not be shown.
    """

    name: str
    text: str
    secret: str


KEY = base64.b64encode(bytes(range(1, 65))).decode()
"""A key of a storage account: base64 of 64 bytes."""
SAS_KEY = base64.b64encode(bytes(range(101, 133))).decode()
"""A key of a policy of Event Hubs: base64 of 32 bytes."""
SIGNATURE = "q3Jx5tVn8bWc0dZfYh2kLmNoPqRsTuVwXyZaBcDeFgH="
TOKEN = "eyJhbGciOiJSUzI1NiIsInR5cCI6IkpXVCJ9.eyJzdWIiOiJzaG9wIn0.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
PASSWORD = "hunter2-Wq7Rt"  # noqa: S105 - an example
_BODY = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"

NAMED = (
    Leak("connection string of Event Hubs", f"Endpoint=sb://a.b/;SharedAccessKey={SAS_KEY};EntityPath=e", SAS_KEY),
    Leak("connection string of storage", f"AccountName=a;AccountKey={KEY};BlobEndpoint=http://b", KEY),
    Leak("connection string with a signature", f"SharedAccessSignature sr=a&sig={SIGNATURE}&se=1", SIGNATURE),
    Leak("query of a SAS", f"GET /c/b?sv=1&sig={SIGNATURE}&se=2 failed", SIGNATURE),
    Leak("query at the end", f"sr=a&sig={SIGNATURE}", SIGNATURE),
    Leak("encoded query", f"GET /c/b?sv%3D1%26sig%3D{SIGNATURE}%26se%3D2 failed", SIGNATURE),
    Leak("query encoded twice", f"redirected to /c/b%253Fsv%253D1%2526sig%253D{SIGNATURE}", SIGNATURE),
    Leak("encoded signature", f"SharedAccessSignature%20sr%3Da%26sig%3D{SIGNATURE}", SIGNATURE),
    Leak("JSON", f'{{"AccountKey": "{KEY}"}}', KEY),
    Leak("JSON in JSON", f'Job says "{{\\"AccountKey\\": \\"{KEY}\\"}}"', KEY),
    Leak("encoded JSON", f"to=%7B%22AccountKey%22%3A%22{KEY}%22%7D", KEY),
    Leak("property of ABFS", f"fs.azure.account.key.shop.dfs.core.windows.net: AccountKey={KEY}", KEY),
    Leak("password", f"password={PASSWORD}", PASSWORD),
    Leak("password with a backslash", f"password=a\\{PASSWORD}", PASSWORD),
    Leak("pwd", f"Server=db;Pwd={PASSWORD};Encrypt=yes", PASSWORD),
    Leak("token", f"GET /a?token={PASSWORD}&x=1", PASSWORD),
    Leak("access token", f'{{"access_token":"{PASSWORD}","expires_in":3599}}', PASSWORD),
    Leak("refresh token", f"grant_type=refresh_token&refresh_token={PASSWORD}", PASSWORD),
    Leak("client secret", f"client_id=a&client_secret={PASSWORD}&scope=b", PASSWORD),
    Leak("client assertion", f"client_assertion={PASSWORD}&scope=b", PASSWORD),
    Leak("Bearer", f"Authorization: Bearer {PASSWORD}", PASSWORD),
    Leak("Bearer without a header", f"sent bearer {PASSWORD}, refused", PASSWORD),
    Leak("headers of Python", f"{{'Authorization': 'Bearer {PASSWORD}', 'x-ms-date': 'now'}}", PASSWORD),
    Leak("a scheme of its own", f"authorization: Shop {PASSWORD}", PASSWORD),
    Leak("no scheme", f"Authorization: {PASSWORD}", PASSWORD),
    Leak("Proxy-Authorization", f"Proxy-Authorization: Basic {PASSWORD}\nHost: a", PASSWORD),
    Leak("SharedKey", f"Authorization: SharedKey shop:{SIGNATURE}", SIGNATURE),
    Leak("SharedKey without a header", f"string to sign for SharedKeyLite shop:{SIGNATURE} is", SIGNATURE),
    Leak("key of Event Grid", f"aeg-sas-key: {SIGNATURE}", SIGNATURE),
    Leak("token of Event Grid", f"aeg-sas-token: {PASSWORD}", PASSWORD),
    Leak("key of an API", f"api-key: {PASSWORD}", PASSWORD),
    Leak("key of Azure Functions", f'"x-functions-key": "{PASSWORD}"', PASSWORD),
    Leak("subscription key", f"Ocp-Apim-Subscription-Key: {PASSWORD}", PASSWORD),
    Leak("header of a user", f"X-Shop-Key: {PASSWORD}", PASSWORD),
    Leak("header with a token", f"X-Shop-Token: {PASSWORD}", PASSWORD),
    Leak("header with credentials", f"x-shop-auth={PASSWORD}", PASSWORD),
    Leak("URL", f"connecting to https://shop:{PASSWORD}@proxy.example:3128 failed", PASSWORD),
    Leak("URL without a user", f"redis://:{PASSWORD}@cache:6379/0", PASSWORD),
    Leak("encoded URL", f"to=https%3A%2F%2Fshop%3A{PASSWORD}%40registry.example%2F", PASSWORD),
)
"""The secret is recognised by what is before or behind it, whatever it is."""

FORMED = (
    Leak("basic credentials", "Basic " + base64.b64encode(b"shop:hunter2-Wq7Rt").decode(), "c2hvcDpodW50ZXI"),
    Leak("a token alone", f"got {TOKEN} from the server", TOKEN.partition(".")[2]),
    Leak("a key of storage alone", f"invalid key {KEY}.", KEY),
    Leak("a key of storage in quotes", f"'{KEY}'", KEY),
    Leak("an encoded key of storage", f"key%20{quote(KEY, safe='')}", KEY[:40]),
    Leak("a key of Event Hubs alone", f"invalid key: {SAS_KEY}", SAS_KEY),
    Leak("a private key", f"-----BEGIN PRIVATE KEY-----\n{_BODY}\n-----END PRIVATE KEY-----", _BODY),
    Leak("a private key of RSA", f"-----BEGIN RSA PRIVATE KEY-----\\n{_BODY}\\n-----END RSA PRIVATE KEY-----", _BODY),
    Leak("an encrypted private key", f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{_BODY}\n", _BODY),
)
"""The secret is recognised by its own form."""

LEAKS = (*NAMED, *FORMED)

ORDINARY = (
    "spec.sink.container: no such container",
    "partition 3 at sequence number 7",
    "sign in: key=ordinary",
    "the designation is 3%",
    "partition_key=customer-7, x-opt-partition-key: customer-7",
    "SharedAccessKeyName=listen;EntityPath=orders",
    "basic authentication is not sufficient here",
    "https://shop.blob.core.windows.net:443/drained/a@b",
    "abfss://drained@shop.dfs.core.windows.net/orders/_batch=3",
    "x-ms-request-id: 6f3a8b54-201e-0000-5b2c-d1c7a7000000, x-ms-version: 2023-11-03",
    'etag "0x8DC0F1B2A3C4D5E", content-md5 1B2M2Y8AsgTpgAmY7PhCfg==',
    "image registry.example/host@sha256:" + "0123456789abcdef" * 4,
    "digest sha256-" + base64.b64encode(bytes(range(32))).decode() + " differs",
    "Repr-Digest: sha-512=" + base64.b64encode(bytes(range(64))).decode(),
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
)
"""Texts that stay as they are."""
