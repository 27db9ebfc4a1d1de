"""Checks the Spark properties of a user. Pure.

The allowed properties, and the forms of their values, are those of `eventconsumer_api.spec.spark_conf`. The CRD has
them too; here a resource is checked that was stored with the CRD of another version.
"""

from eventconsumer_api.spec.spark import Spark
from eventconsumer_api.spec.spark_conf import ALLOWED
from eventconsumer_operator.errors import SpecError

FIELD = "spec.spark.application.conf"

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
        SpecError: A property is not allowed, or its value does not have the allowed form; the message names it.
    """
    for name, value in spark.application.conf.items():
        form = ALLOWED.get(name)
        if form is None:
            raise SpecError(FIELD, _refusal(name))
        if not form.fits(value):
            raise SpecError(FIELD, f"{name} has a value of another form: use {form.text}")
    return dict(spark.application.conf)


def _refusal(name: str) -> str:
    instead = next((text for prefix, text in _INSTEAD.items() if name.startswith(prefix)), "")
    if instead:
        return f"{name} is set by the operator: use {instead}"
    return f"{name} is not allowed: use a property of docs/reference/properties.md, or set it in the program"
