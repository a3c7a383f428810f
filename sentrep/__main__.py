"""``python -m sentrep`` is the command ``sentrep``."""

import sys

from sentrep.cli import main

if __name__ == "__main__":
    sys.exit(main())
