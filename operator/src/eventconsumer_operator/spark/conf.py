"""Checks the Spark properties of a user. Pure.

A property can name a class to load, a file to fetch, an address, a service account, or a folder of another resource.
Permission to create an EventConsumer must not grant these. So the allowed properties are listed: they affect speed,
memory and the behaviour of SQL. Names among them that stand for code or places are excluded.
"""

import re

from eventconsumer_api.spark import Spark
from eventconsumer_operator.errors import SpecError

FIELD = "spec.spark.application.conf"

ALLOWED = (
    "spark.databricks.delta.",
    "spark.default.parallelism",
    "spark.driver.maxResultSize",
    "spark.excludeOnFailure.",
    "spark.executor.heartbeatInterval",
    "spark.executor.memoryOverhead",
    "spark.executor.memoryOverheadFactor",
    "spark.executor.pyspark.memory",
    "spark.files.maxPartitionBytes",
    "spark.locality.wait",
    "spark.log.level",
    "spark.memory.",
    "spark.network.timeout",
    "spark.python.worker.memory",
    "spark.python.worker.reuse",
    "spark.rdd.compress",
    "spark.reducer.",
    "spark.rpc.message.maxSize",
    "spark.shuffle.",
    "spark.speculation",
    "spark.speculation.",
    "spark.sql.",
    "spark.stage.maxConsecutiveAttempts",
    "spark.task.",
)
"""A name that ends with a dot allows all properties below it, any other exactly that property."""

# A part of a name, between dots, that stands for code or a place.
_NAMES_CODE_OR_PLACE = re.compile(
    r"class(es)?|.*class(es)?name|.*[a-z]Class(es)?|extensions?|.*listeners?|catalog.*|.*catalog|jars?|hive.*|warehouse.*"
    r"|artifact.*|redaction.*|.*location|.*dir|.*directory|.*paths?|.*provider.*|.*factory.*|.*plugins?|.*serializer"
    r"|.*manager|.*managerclass|.*committer.*|commitprotocol.*|service|push|coordinatedcommits.*|.*logstore.*|.*url|.*uri"
    r"|.*host|.*address|.*endpoint",
    re.IGNORECASE,
)

_INSTEAD = {
    "spark.driver.cores": "spec.spark.driver.cores",
    "spark.driver.memory": "spec.spark.driver.memory",
    "spark.driver.memoryOverhead": "spec.spark.driver.memory",
    "spark.executor.cores": "spec.spark.executor.cores",
    "spark.executor.instances": "spec.spark.executor.instances",
    "spark.executor.memory": "spec.spark.executor.memory",
    "spark.dynamicAllocation.": "spec.spark.executor.minInstances and instances",
    "spark.local.dir": "spec.spark.driver.scratch and spec.spark.executor.scratch",
    "spark.jars": "an image with the jars: spec.spark.application.image",
    "spark.submit.pyFiles": "an image with the files: spec.spark.application.image",
    "spark.files": "an image with the files: spec.spark.application.image",
    "spark.hadoop.": "spec.sink.authentication, which determines the storage settings",
    "spark.kubernetes.": "the fields of spec.spark, which determine the pods",
}


def checked_conf(spark: Spark) -> dict[str, str]:
    """The user's properties.

    Raises:
        SpecError: A property is not allowed; the message names it.
    """
    for name, value in spark.application.conf.items():
        if not is_allowed(name):
            raise SpecError(FIELD, _refusal(name))
        if "${" in value:
            raise SpecError(FIELD, f"{name} contains a reference (${{): write the value itself")
    return dict(spark.application.conf)


def is_allowed(name: str) -> bool:
    """Whether a property is allowed."""
    family = next((each for each in ALLOWED if name == each or (each.endswith(".") and name.startswith(each))), None)
    if family is None:
        return False
    if name.endswith(".python"):  # the interpreter of executors; other names only contain it in the middle
        return False
    return not any(_NAMES_CODE_OR_PLACE.fullmatch(part) for part in name.removeprefix(family).split("."))


def _refusal(name: str) -> str:
    instead = next((text for prefix, text in _INSTEAD.items() if name.startswith(prefix)), "")
    if instead:
        return f"{name} is set by the operator: use {instead}"
    return (
        f"{name} is not allowed: it may change the code, the place or the identity of the application; "
        f"use {', '.join(each + '*' if each.endswith('.') else each for each in ALLOWED)}"
    )
