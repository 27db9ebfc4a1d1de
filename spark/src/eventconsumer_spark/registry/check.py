"""`python3 -m eventconsumer_spark.registry.check`: whether drivers can read schemas from their registry.

`kubectl eventconsumer doctor` runs it in a pod with the image, the service account and the credential of drivers, which
hosts do not have. Standard input is a `RegistryCheck`, standard output a `CheckAnswer`, as of the host's command
`check`. Exit codes: 0 the check passed, 2 it failed.
"""

import sys

from pydantic import ValidationError

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.shared.coredumps import forbid_core_dumps
from eventconsumer_api.spec.spark import RegistryType
from eventconsumer_api.wire.batch import RegistryCheck
from eventconsumer_api.wire.checks import Check, CheckAnswer
from eventconsumer_api.wire.document import misfit
from eventconsumer_spark.registry.client import SchemaRegistry

CHECK = "schema-registry"
# The last id of each kind of registry, which no schema has: the request is that of drivers, and has the same failures.
NO_SCHEMA = {RegistryType.AZURE: "f" * 32, RegistryType.CONFLUENT: str(2**31 - 1)}


def check(client: SchemaRegistry) -> Check:
    """Request a schema, as drivers do; the result, with a remedy if it failed."""
    registry = client.registry
    try:
        client.schemas([NO_SCHEMA[registry.type]])
    except EventConsumerError as error:
        detail, _, remedy = str(error).rpartition(": ")
        return Check(check=CHECK, ok=False, detail=detail, remedy=remedy)
    return Check(check=CHECK, ok=True, detail=f"{registry.url} responds to drivers and lets them read schemas")


def main() -> int:
    """Check the registry that standard input names."""
    forbid_core_dumps()
    try:
        given = RegistryCheck.model_validate_json(sys.stdin.read())
    except ValidationError as error:
        sys.stderr.write(f"the request is not one of this version of the Spark image: {misfit(error)}\n")
        return 2
    found = check(SchemaRegistry(given.registry, given.credential))
    sys.stdout.write(CheckAnswer(checks=[found]).to_json() + "\n")
    return 0 if found.ok else 2


if __name__ == "__main__":
    sys.exit(main())
