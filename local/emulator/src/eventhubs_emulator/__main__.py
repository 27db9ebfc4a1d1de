"""``python -m eventhubs_emulator``."""

import sys

from .cli import main

sys.exit(main())
