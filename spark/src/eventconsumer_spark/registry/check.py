"""`python3 -m eventconsumer_spark.registry.check`: whether drivers can read schemas from their registry.

`kubectl eventconsumer doctor` runs it in a pod with the image, the service account and the credential of drivers, which
hosts do not have. Standard input is JSON: `registry` as in the resource, and `credential` as in a batch job, or null.
Standard output is JSON as that of the host's command `check`. Exit codes: 0 the check passed, 2 it failed.
"""

import json
import sys
from typing import Any

from eventconsumer_api.errors import EventConsumerError
from eventconsumer_api.shared.coredumps import forbid_core_dumps
from eventconsumer_api.spec.spark import Registry, RegistryType
from eventconsumer_api.wire.host_config import Credential
from eventconsumer_spark.registry.client import SchemaRegistry

CHECK = "schema-registry"
# The last id of each kind of registry, which no schema has: the request is that of drivers, and has the same failures.
NO_SCHEMA = {RegistryType.AZURE: "f" * 32, RegistryType.CONFLUENT: str(2**31 - 1)}


def check(client: SchemaRegistry) -> dict[str, Any]:
    """Request a schema, as drivers do; the result, with a remedy if it failed."""
    registry = client.registry
    try:
        client.schemas([NO_SCHEMA[registry.type]])
    except EventConsumerError as error:
        detail, _, remedy = str(error).rpartition(": ")
        return {"check": CHECK, "ok": False, "detail": detail, "remedy": remedy}
    return {"check": CHECK, "ok": True, "detail": f"{registry.url} responds to drivers and lets them read schemas"}


def main() -> int:
    """Check the registry that standard input names."""
    forbid_core_dumps()
    given = json.load(sys.stdin)
    credential = given["credential"] and Credential.model_validate(given["credential"])
    found = check(SchemaRegistry(Registry.model_validate(given["registry"]), credential))
    sys.stdout.write(json.dumps({"checks": [found]}) + "\n")
    return 0 if found["ok"] else 2


if __name__ == "__main__":
    sys.exit(main())
