"""`python -m eventconsumer_processor`: the same as the program `eventconsumer`, a host where no command is given."""

import sys

from eventconsumer_processor.cli import main

if __name__ == "__main__":
    sys.exit(main())
