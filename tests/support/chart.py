"""Values that an installation of the chart requires, for tests that render it."""

from pathlib import Path

VALUES_FILE = Path(__file__).with_suffix(".yaml")
