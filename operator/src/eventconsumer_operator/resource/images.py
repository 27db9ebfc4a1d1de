"""Images of hosts and Spark: the administrator's, or images of users that the administrator allows. Pure."""

import re
from collections.abc import Collection

from eventconsumer_api.spec.spark import PROGRAMS, other_program
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
    if any(re.fullmatch(covered(prefix), image) for prefix in prefixes):
        return image
    if not prefixes:
        raise SpecError(field, f"no image with {what} is allowed: ask the operator's administrator to set {setting}")
    raise SpecError(field, f"{image} is not allowed: use an image whose name starts with one of {', '.join(prefixes)}")


def covered(prefix: str) -> str:
    """The regular expression of the images that a prefix covers: by whole segments of the path, in one registry.

    `shop.example` covers neither `shop.example.evil/x` nor `shop.example:5000/x`, which is another registry, and
    `shop.example/x:1` only that tag. What is a registry: the rule of Docker (`splitDockerDomain` in normalize.go of
    github.com/distribution/reference). The chart has the same in `eventconsumer.images`.
    """
    name = re.escape(prefix)
    if prefix.endswith("/"):
        return f"{name}.*"
    last = prefix.rpartition("/")[2]
    if last == prefix and ("." in prefix or ":" in prefix or prefix == "localhost" or prefix != prefix.lower()):
        return f"{name}(/.*)?"  # `shop:1` is a registry, or an image with a tag
    if ":" in last or "@" in last:
        return name
    return f"{name}([/@].*|:[^/]*)?"
