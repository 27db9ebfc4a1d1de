"""Whether the drivers of a consumer with Avro bodies can read schemas, from a pod that is like a driver.

Hosts cannot tell: they have another service account, no credential for the registry, and a NetworkPolicy that may not
open its port. The operator has no credential either.
"""

import json
from collections.abc import Iterator

from pydantic import ValidationError

from eventconsumer_api.kube.kinds import Manifest
from eventconsumer_api.kube.mounts import proxy_config, registry_credential
from eventconsumer_api.spec.endpoints import registry_problem
from eventconsumer_api.spec.spark import Body, Registry
from eventconsumer_api.v1alpha1 import Proxy
from eventconsumer_cli.doctor.findings import Finding, Level
from eventconsumer_cli.doctor.inside import checks
from eventconsumer_cli.errors import CliError
from eventconsumer_cli.kube.cluster import Cluster
from eventconsumer_cli.kube.kinds import namespace_of
from eventconsumer_cli.kube.releases import serving
from eventconsumer_cli.kube.toolbox import Toolbox

CHECK = "schema-registry"
PROGRAM = ("python3", "-m", "eventconsumer_spark.registry.check")


def look(cluster: Cluster, toolbox: Toolbox | None, consumer: Manifest) -> Iterator[Finding]:
    """Check the schema registry; nothing where bodies are not Avro.

    Args:
        cluster: The cluster.
        toolbox: Runs checks inside the cluster; None: check only whether the administrator allows it.
        consumer: The EventConsumer.
    """
    spec = consumer["spec"]
    spark = spec.get("spark") or {}
    written = (spark.get("output") or {}).get("body") or {}
    if not spark.get("enabled", True) or "registry" not in written:
        return
    try:
        registry = Body.model_validate(written).registry
        proxy = proxy_config(Proxy.model_validate(spec["proxy"]) if spec.get("proxy") else None)
    except ValidationError:
        text = "spec.spark.output.body or spec.proxy has fields that this plugin does not know"
        yield Finding(CHECK, Level.UNKNOWN, text)
        return
    if registry is None:
        return
    if refused := _refused(cluster, namespace_of(consumer), registry):
        yield refused  # drivers do not connect to it: neither does a check
        return
    if toolbox is None:
        return
    image = consumer.get("status", {}).get("effective", {}).get("sparkImage")
    if not image:
        yield Finding(CHECK, Level.UNKNOWN, "the operator has not named the Spark image yet")
        return
    credential = registry_credential(registry)
    given = {
        "registry": registry.model_dump(mode="json", by_alias=True),
        "credential": credential.model_dump(mode="json", by_alias=True) if credential else None,
    }
    try:
        with toolbox.like_driver(consumer, image, credential, proxy=proxy, program=PROGRAM) as tool:
            yield from checks(tool, (), json.dumps(given).encode())
    except CliError as error:
        yield Finding(CHECK, Level.WARNING, f"no pod could run the check: {error}", error.remedy)


def _refused(cluster: Cluster, namespace: str, registry: Registry) -> Finding | None:
    """Why no check connects to the registry; None: the administrator allows it."""
    try:
        settings = serving(cluster, namespace).settings
    except CliError as error:
        return Finding(CHECK, Level.UNKNOWN, f"whether the administrator allows it is unknown: {error}", error.remedy)
    problem = registry_problem(registry.url, settings.schema_registries)
    if settings.allow_insecure_endpoints or not problem:
        return None
    cause, _, remedy = problem.message.partition(": ")
    return Finding(CHECK, Level.BROKEN, f"spec.spark.output.body.registry.url: {cause}", remedy)
