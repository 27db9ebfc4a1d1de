"""Images of hosts and Spark: the administrator's, or images of users that the administrator allows. Pure."""

from collections.abc import Collection

from eventconsumer_api.spark import PROGRAMS, other_program
from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.settings import Settings

FIELD = "spec.processing.image"
SPARK_FIELD = "spec.spark.application.image"


def host_image(spec: EventConsumerSpec, settings: Settings) -> str:
    """The image of the hosts.

    Raises:
        SpecError: The image is not allowed.
    """
    image = spec.processing.image
    if image is None:
        return settings.processor_image
    return _allowed(image, FIELD, settings.handler_image_prefixes, "a handler", "handlerImagePrefixes")


def spark_image(spec: EventConsumerSpec, settings: Settings) -> str:
    """The image of Spark drivers and executors.

    Raises:
        SpecError: The image is not allowed, or the program needs one.
    """
    application = spec.spark.application if spec.spark and spec.spark.enabled else None
    if application is None:
        return settings.spark_image
    image = application.image
    if image is None:
        if application.main_file not in PROGRAMS:
            raise SpecError("spec.spark.application.mainFile", f"{application.main_file} {other_program()}")
        return settings.spark_image
    return _allowed(image, SPARK_FIELD, settings.spark_image_prefixes, "a Spark program", "sparkImagePrefixes")


def _allowed(image: str, field: str, prefixes: Collection[str], what: str, setting: str) -> str:
    if any(_starts(image, prefix) for prefix in prefixes):
        return image
    if not prefixes:
        raise SpecError(field, f"no image with {what} is allowed: ask the operator's administrator to set {setting}")
    raise SpecError(field, f"{image} is not allowed: use an image whose name starts with one of {', '.join(prefixes)}")


def _starts(image: str, prefix: str) -> bool:
    """Whether a prefix covers an image, by whole path segments: `shop` does not cover `shopping/x`."""
    if not image.startswith(prefix):
        return False
    rest = image[len(prefix) :]
    return prefix.endswith("/") or not rest or rest[0] in "/:@"
