"""Which image hosts run: the administrator's, or one with the user's handler that the administrator allows. Pure."""

from eventconsumer_api.v1alpha1 import EventConsumerSpec
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.settings import Settings

FIELD = "spec.processing.image"


def host_image(spec: EventConsumerSpec, settings: Settings) -> str:
    """The image of the hosts.

    Raises:
        SpecError: The image is not one of those allowed.
    """
    image = spec.processing.image
    if image is None:
        return settings.processor_image
    if any(_starts(image, prefix) for prefix in settings.handler_image_prefixes):
        return image
    if not settings.handler_image_prefixes:
        raise SpecError(FIELD, "no image with a handler is allowed: the administrator must name handlerImagePrefixes")
    allowed = ", ".join(settings.handler_image_prefixes)
    raise SpecError(FIELD, f"{image} is not allowed: use an image whose name starts with one of {allowed}")


def _starts(image: str, prefix: str) -> bool:
    """Whether an image lies under a prefix: a whole path segment, so that `shop` does not allow `shopping/x`."""
    if not image.startswith(prefix):
        return False
    rest = image[len(prefix) :]
    return prefix.endswith("/") or not rest or rest[0] in "/:@"
