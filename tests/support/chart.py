"""Values that an installation of the chart requires, for tests that render it: images, and a served namespace."""

from pathlib import Path

VALUES_FILE = Path(__file__).with_suffix(".yaml")
SERVED = ("--set-json", 'watchNamespaces=["shop"]')
"""Not with scope=Cluster."""
