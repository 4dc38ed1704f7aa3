"""`python -m audiocpp.daemon`."""

import sys

from audiocpp.daemon.cli import main

if __name__ == "__main__":
    sys.exit(main())
