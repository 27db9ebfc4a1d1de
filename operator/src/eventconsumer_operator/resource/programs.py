"""What user code gets in its pod: variables and folders of ConfigMaps and Secrets. Pure.

For handlers (spec.processing) and Spark programs (spec.spark.application), whose pods differ in all else.
"""

from typing import Any

from pydantic.alias_generators import to_camel

from eventconsumer_api.kube.expansion import inert
from eventconsumer_api.spec.programs import NEEDS_IMAGE, Inputs, ProgramVolume, env_prefixes, needs_image, references
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.resource.written import as_written
from eventconsumer_operator.settings import Settings


def check_inputs(path: str, inputs: Inputs, settings: Settings) -> None:
    """Check image, names and sources, whatever the API server has checked: its CRD may have another version.

    Args:
        path: Path of the part of the spec, such as processing.
        inputs: The part.
        settings: The administrator's settings.

    Raises:
        SpecError: A field needs an image, a name has none of the allowed prefixes, a value refers to another variable,
            or a volume has not exactly one source.
    """
    field = f"spec.{path}"
    if inputs.image is None:
        for name in NEEDS_IMAGE[path]:
            if getattr(inputs, name):
                raise SpecError(f"{field}.{to_camel(name)}", needs_image(path))
    for variable in inputs.env:
        _check_prefix(f"{field}.env", variable.name, settings)
        if "$(" in (variable.value or ""):
            raise SpecError(
                f"{field}.env",
                f"{variable.name} has a value with $(, which would refer to another variable: write the text itself, "
                "or put it into a ConfigMap",
            )
    for source in inputs.env_from:
        _check_prefix(f"{field}.envFrom", source.prefix, settings)
    for volume in inputs.volumes:
        if (volume.config_map is None) == (volume.secret is None):
            raise SpecError(f"{field}.volumes", f"{volume.mount_path}: set exactly one of configMap and secret")


def _check_prefix(field: str, name: str, settings: Settings) -> None:
    allowed = env_prefixes(settings.env_prefixes)
    if not name.startswith(allowed):
        raise SpecError(
            field,
            f"{name} does not begin with an allowed prefix ({', '.join(allowed)}): use another name, or ask the "
            "operator's administrator to extend envPrefixes",
        )


def environment(inputs: Inputs) -> list[dict[str, Any]]:
    """Variables of the container, in addition to those of our programs, whose names they cannot have."""
    return [
        as_written(variable) | ({} if variable.value is None else {"value": inert(variable.value)})
        for variable in inputs.env
    ]


def env_sources(inputs: Inputs) -> list[dict[str, Any]]:
    """`envFrom` of the container. Variables of `env` count before these."""
    return [as_written(source) for source in inputs.env_from]


def volumes(inputs: Inputs) -> list[dict[str, Any]]:
    """Volumes of the pod."""
    return [_volume(volume) for volume in inputs.volumes]


def mounts(inputs: Inputs) -> list[dict[str, Any]]:
    """Mounts of the container, of whole folders: files follow a changed ConfigMap or Secret."""
    return [{"name": each.volume_name, "mountPath": each.mount_path, "readOnly": True} for each in inputs.volumes]


def required_objects(inputs: Inputs) -> tuple[str, ...]:
    """ConfigMaps and Secrets without which the volumes cannot be mounted, such as `ConfigMap shop`; each once."""
    needed = (each for each in references(inputs) if each.field == "volumes" and not each.optional)
    return tuple(dict.fromkeys(f"{each.kind} {each.name}" for each in needed))


def _volume(volume: ProgramVolume) -> dict[str, Any]:
    # Files are readable for the group, which is that of the container's user (fsGroup).
    sources = {"configMap": volume.config_map, "secret": volume.secret}
    chosen = {kind: as_written(source) | {"defaultMode": 0o440} for kind, source in sources.items() if source}
    return {"name": volume.volume_name} | chosen
