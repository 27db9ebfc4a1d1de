"""Responses of List Blobs. What Azurite returns is a contract test: this is what only Azure returns."""

from datetime import UTC, datetime
from xml.etree.ElementTree import fromstring

import pytest

from eventconsumer_storage.blobs import BlobInfo
from eventconsumer_storage.listing import infos_of

# The form of the response in learn.microsoft.com/rest/api/storageservices/list-blobs, of an account with versions. Only
# a name that XML cannot have is percent-encoded there.
RESPONSE = """<?xml version="1.0" encoding="utf-8"?>
<EnumerationResults ServiceEndpoint="https://shop.blob.core.windows.net/" ContainerName="drained">
  <Prefix>p/</Prefix><MaxResults>5000</MaxResults>
  <Blobs>
    <Blob>
      <Name Encoded="true">p/a%EF%BF%BE%2041</Name><VersionId>2026-01-01T00:00:00.0000000Z</VersionId>
      <IsCurrentVersion>true</IsCurrentVersion>
      <Properties>
        <Creation-Time>Thu, 01 Jan 2026 00:00:00 GMT</Creation-Time>
        <Last-Modified>Thu, 01 Jan 2026 12:00:00 GMT</Last-Modified>
        <Etag>0x8DA</Etag><Content-Length>3</Content-Length><Content-Type>application/octet-stream</Content-Type>
        <Content-MD5>AQI=</Content-MD5><BlobType>BlockBlob</BlobType><AccessTier>Hot</AccessTier>
        <LeaseStatus>locked</LeaseStatus><LeaseState>breaking</LeaseState><ServerEncrypted>true</ServerEncrypted>
      </Properties>
      <Metadata><first>1</first><gap /></Metadata><OrMetadata />
    </Blob>
    <BlobPrefix><Name>p/folder/</Name></BlobPrefix>
    <Blob>
      <Name>p/b%20c</Name>
      <Properties><Last-Modified>Thu, 01 Jan 2026 12:00:00 GMT</Last-Modified><Etag>"0x8DB"</Etag></Properties>
    </Blob>
  </Blobs>
  <NextMarker />
</EnumerationResults>"""


def test_a_response_of_azure() -> None:
    when = datetime(2026, 1, 1, 12, tzinfo=UTC)
    assert list(infos_of(fromstring(RESPONSE))) == [
        BlobInfo(
            "p/a\ufffe 41", '"0x8DA"', 3, when, {"first": "1", "gap": ""}, leased=True, md5=b"\x01\x02", versioned=True
        ),
        BlobInfo("p/b%20c", '"0x8DB"', 0, when),
    ]
    assert next(infos_of(fromstring(RESPONSE))).versioned


def test_a_blob_without_an_etag_is_no_response_of_azure() -> None:
    with pytest.raises(KeyError):
        list(infos_of(fromstring(RESPONSE.replace("<Etag>0x8DA</Etag>", ""))))
