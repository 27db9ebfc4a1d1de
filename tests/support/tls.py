"""The emulator as Event Hubs is reached: over TLS on port 5671, which some clients do not let their users choose."""

import subprocess
from pathlib import Path

from tests.support.azurite import own_address
from tests.support.servers import KEY, KEY_NAME, EmulatorProcess

PORT = 5671


class TlsEmulator(EmulatorProcess):
    """An emulator on a loopback address of its own, with a certificate that only clients with `certificate` trust."""

    def __init__(self, directory: Path, *options: str) -> None:
        host = own_address()
        self.certificate, key = directory / "certificate.pem", directory / "key.pem"
        directory.mkdir(parents=True, exist_ok=True)
        command = f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 -keyout {key} -out {self.certificate}"
        name = ["-subj", f"/CN={host}", "-addext", f"subjectAltName=IP:{host}"]
        subprocess.run([*command.split(), *name], check=True, capture_output=True)
        tls = (f"--tls-cert={self.certificate}", f"--tls-key={key}")
        super().__init__(directory, *tls, *options, host=host, port=PORT)

    def connection_string(self, hub: str | None = None, name: str = KEY_NAME, key: str = KEY) -> str:
        """The connection string of the namespace, or of a hub (with EntityPath)."""
        text = f"Endpoint=sb://{self.host}/;SharedAccessKeyName={name};SharedAccessKey={key}"
        return f"{text};EntityPath={hub}" if hub else text
