"""PURE: in-toto statements about a release: its SLSA provenance, and the bill of materials of an image.

Sources: github.com/in-toto/attestation, spec/v1/statement.md; slsa.dev/spec/v1.0/provenance.
"""

import json
from collections.abc import Mapping
from typing import Any

from eventconsumer_release.source import Commit

PROVENANCE = "https://slsa.dev/provenance/v1"
BILL_OF_MATERIALS = "https://cyclonedx.org/bom"
BUILD_TYPE = "https://eventconsumer.io/release/v1"
"""`make release` of one commit; the parameters are its arguments."""
BUILDER = "https://eventconsumer.io/release/holder-of-the-key"
"""A machine of the holder of the key. It is not isolated from its owner: build level 1 of SLSA."""


def provenance(version: str, registry: str, commit: Commit, subjects: Mapping[str, str]) -> dict[str, Any]:
    """The statement that these files and images were built from a commit.

    It has no times, so that two builds of a commit have the same statement.

    Args:
        version: Version of the release.
        registry: Registry of the images.
        commit: The source.
        subjects: SHA-256 by name: files, and the manifests of images.
    """
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": {"version": version, "registry": registry},
            "resolvedDependencies": [{"name": "source", "digest": {"gitCommit": commit.id}}],
        },
        "runDetails": {"builder": {"id": BUILDER}},
    }
    return _statement(PROVENANCE, predicate, subjects)


def bill_of_materials(document: str, image: str, digest: str) -> dict[str, Any]:
    """The statement that an image contains the components of a CycloneDX document.

    Args:
        document: JSON.
        image: Reference of the image.
        digest: SHA-256 of its manifest.
    """
    return _statement(BILL_OF_MATERIALS, json.loads(document), {image: digest})


def _statement(kind: str, predicate: dict[str, Any], subjects: Mapping[str, str]) -> dict[str, Any]:
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in sorted(subjects.items())],
        "predicateType": kind,
        "predicate": predicate,
    }
