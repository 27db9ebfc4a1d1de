"""Which Spark properties a user may set. Pure.

A property can name a class to load, a file to fetch, an address to send to, an account to run as, or a folder that is
not the resource's: whoever may create an EventConsumer must not get there. So what may be set is listed: what changes
how fast and in how much memory a program runs, and how SQL behaves. Of that, too, whatever names code or a place is
left out.
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
"""All properties of a family where it ends with a dot, else exactly that property."""

# A part of a name, between dots, that stands for code or for a place.
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
    "spark.dynamicAllocation.": "spec.spark.executor.instances",
    "spark.jars": "an image of your own, which has the jars: spec.spark.application.image",
    "spark.submit.pyFiles": "an image of your own, which has the files: spec.spark.application.image",
    "spark.files": "an image of your own, which has the files: spec.spark.application.image",
    "spark.hadoop.": "spec.sink.authentication, from which the settings of the storage follow",
    "spark.kubernetes.": "the fields of spec.spark, from which the pods follow",
}


def checked_conf(spark: Spark) -> dict[str, str]:
    """The user's properties.

    Raises:
        SpecError: One of them is not allowed; the message names it.
    """
    for name, value in spark.application.conf.items():
        if not is_allowed(name):
            raise SpecError(FIELD, _refusal(name))
        if "${" in value:
            raise SpecError(FIELD, f"{name} refers to something with ${{: write the value itself")
    return dict(spark.application.conf)


def is_allowed(name: str) -> bool:
    """Whether a user may set a property."""
    family = next((each for each in ALLOWED if name == each or (each.endswith(".") and name.startswith(each))), None)
    if family is None:
        return False
    if name.endswith(".python"):  # the interpreter that executors start; other names only have it in the middle
        return False
    return not any(_NAMES_CODE_OR_PLACE.fullmatch(part) for part in name.removeprefix(family).split("."))


def _refusal(name: str) -> str:
    instead = next((text for prefix, text in _INSTEAD.items() if name.startswith(prefix)), "")
    if instead:
        return f"{name} is reserved for this operator: use {instead}"
    return (
        f"{name} is reserved, because such properties can change where, with what code or as whom the application "
        f"runs; allowed are {', '.join(each + '*' if each.endswith('.') else each for each in ALLOWED)}"
    )
