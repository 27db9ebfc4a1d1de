"""Listings without the models of Azure's client.

For each blob of a listing, the client makes a model with fifty attributes; hosts need nine of them. That is most of the
CPU time and memory of a long listing: `tests.bench.chain_size --azurite`. So this module requests names only, for which
the client parses the XML and makes no model, with metadata, and reads the XML. It is the response of List Blobs:
learn.microsoft.com/rest/api/storageservices/list-blobs, "Response body".
"""

from base64 import b64decode
from collections.abc import Iterator, Sequence
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import unquote
from xml.etree.ElementTree import Element

from azure.core.pipeline.policies import ContentDecodePolicy
from azure.storage.blob.aio import ContainerClient

from eventconsumer_storage.blobs import BlobInfo, is_held, quoted


async def page_of(
    container: ContainerClient, prefix: str, token: str = "", *, metadata: bool = True, limit: int | None = None
) -> tuple[Sequence[BlobInfo], str]:
    """One response of storage; arguments and result as for `BlobStore.list_page`.

    Raises:
        AzureError: The request failed.
        ValueError: The response is not a listing.
    """
    responses: list[Any] = []  # with each attempt's response, azure.core.pipeline.PipelineResponse
    # The method passes on arguments that it does not document; a contract test compares the result with `info_of`.
    include: dict[str, Any] = {"include": ["metadata"]} if metadata else {}
    names = container.list_blob_names(
        name_starts_with=prefix, results_per_page=limit, raw_response_hook=responses.append, **include
    )
    pages = names.by_page(token or None)
    await anext(pages)
    root = responses[-1].context[ContentDecodePolicy.CONTEXT_NAME]
    if not isinstance(root, Element):
        raise ValueError("the response of List Blobs is not XML")
    try:
        return list(infos_of(root)), getattr(pages, "continuation_token", None) or ""
    except KeyError as error:
        raise ValueError(f"a blob in the response of List Blobs has no {error}") from error


def infos_of(root: Element) -> Iterator[BlobInfo]:
    """PURE: the blobs in a response of List Blobs; raises KeyError if a required part is missing."""
    for blob in root.iterfind("Blobs/Blob"):
        parts = {part.tag: part for part in blob}
        name, facts = parts["Name"], {fact.tag: fact.text or "" for fact in parts["Properties"]}
        text, state = name.text or "", facts.get("LeaseState", "")
        yield BlobInfo(
            name=unquote(text) if name.get("Encoded") == "true" else text,
            etag=quoted(facts["Etag"]),
            size=int(facts.get("Content-Length") or 0),
            last_modified=parsedate_to_datetime(facts["Last-Modified"]),
            metadata={fact.tag: fact.text or "" for fact in parts.get("Metadata", ())},
            leased=is_held(state),
            forever=state == "leased" and facts.get("LeaseDuration") == "infinite",
            md5=b64decode(facts.get("Content-MD5", "")),
            versioned="VersionId" in parts,
        )
