"""What user code gets in its pod: variables and folders of ConfigMaps and Secrets. Pure.

For handlers (spec.processing) and Spark programs (spec.spark.application), whose pods differ in all else.
"""

from typing import Any

from eventconsumer_api.programs import Inputs, ProgramVolume, is_reserved_env, is_reserved_prefix, references
from eventconsumer_operator.errors import SpecError
from eventconsumer_operator.resource.written import as_written


def check_inputs(field: str, inputs: Inputs) -> None:
    """Check names and sources; the API server has done so, unless its CRD has another version.

    Args:
        field: Path of the part of the spec, such as spec.processing.
        inputs: The part.

    Raises:
        SpecError: A name is reserved, a prefix could make a reserved one, or a volume has not exactly one source.
    """
    for variable in inputs.env:
        if is_reserved_env(variable.name):
            raise SpecError(
                f"{field}.env", f"{variable.name} is reserved for the programs of the pod: use another name"
            )
    for source in inputs.env_from:
        if is_reserved_prefix(source.prefix):
            raise SpecError(
                f"{field}.envFrom",
                f"with the prefix {source.prefix} a key could give a reserved name: use another prefix, such as APP_",
            )
    for volume in inputs.volumes:
        if (volume.config_map is None) == (volume.secret is None):
            raise SpecError(f"{field}.volumes", f"{volume.mount_path}: set exactly one of configMap and secret")


def environment(inputs: Inputs) -> list[dict[str, Any]]:
    """Variables of the container, in addition to those of our programs, whose names they cannot have."""
    return [as_written(variable) for variable in inputs.env]


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
