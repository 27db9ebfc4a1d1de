"""`python -m tests.fuzz.harness TARGET [options of libFuzzer]`: one target in Python under Atheris.

Atheris adds the recording of coverage to the modules that it sees imported, so their import is here.
"""

import sys

import atheris

from tests.fuzz.targets import load

_PACKAGES = [f"eventconsumer_{name}" for name in ("api", "storage", "operator", "host", "tools", "audit", "cli")]

with atheris.instrument_imports(include=_PACKAGES):
    target = load(sys.argv[1])

# To minimise a corpus, libFuzzer runs the first argument again, by a shell.
atheris.Setup([f"{sys.executable} -m tests.fuzz.harness {sys.argv[1]}", *sys.argv[2:]], target)
atheris.Fuzz()
