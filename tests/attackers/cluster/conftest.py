"""The demo's cluster, as for the end-to-end suite."""

from tests.e2e.conftest import demo

__all__ = ["demo"]
