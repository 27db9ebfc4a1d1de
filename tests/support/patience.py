"""How long tests wait for what has to come: longer where other suites run beside them.

`tests.support.lanes` runs most suites at low priority while the end-to-end tests have the machine. What they wait for
comes late then, and is right. Only limits of waiting are made longer, never what a test expects.
"""

import os

FACTOR = float(os.environ.get("TESTS_PATIENCE", "1"))


def patiently(seconds: float) -> float:
    """As long as `seconds` on a machine with nothing else to do.

    Args:
        seconds: What is enough there.

    Returns:
        Seconds to wait here.
    """
    return seconds * FACTOR
