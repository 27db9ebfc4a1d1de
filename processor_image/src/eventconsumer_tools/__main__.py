"""`python -m eventconsumer_tools`: the same as the program `eventconsumer`, a host where no command is given."""

import sys

from eventconsumer_tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
