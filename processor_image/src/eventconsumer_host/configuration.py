"""What commands read from files: the configuration of a host, and connection strings."""

from pathlib import Path

from pydantic import ValidationError

from eventconsumer_api.wire.host_config import Credential, HostConfig
from eventconsumer_host.errors import CommandError


def read_config(path: Path, otherwise: str = "") -> HostConfig:
    """The configuration of a host.

    Args:
        path: The file.
        otherwise: For the message where the file is missing: what else the user can do.

    Raises:
        CommandError: It cannot be read.
    """
    try:
        return HostConfig.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise CommandError(
            f"cannot read the configuration {path}: {reason}. Run this in a host pod, or name the file with --config"
            f"{otherwise}"
        ) from None
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, problem["loc"])) for problem in error.errors()[:5])
        raise CommandError(f"the configuration {path} does not fit this version of the program: {fields}") from None


def parse_config(text: str, name: str) -> HostConfig:
    """The configuration in a text.

    Args:
        text: JSON.
        name: Of its source, for the message.

    Raises:
        CommandError: It does not fit this version.
    """
    try:
        return HostConfig.model_validate_json(text)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, problem["loc"])) or problem["msg"] for problem in error.errors()[:5])
        raise CommandError(
            f"{name} is no HostConfig of this version ({fields}): use a plugin of the operator's version"
        ) from None


def credential_in(file: Path, option: str) -> Credential:
    """A credential that is a connection string in a file.

    Args:
        file: The file.
        option: The command's option that names it.
    """
    return Credential(field=option, secret=file.name, key="the text", connection_string_file=str(file))
