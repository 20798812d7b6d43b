"""``python -m det_compat``."""

import sys

from det_compat.cli import main

if __name__ == "__main__":
    sys.exit(main())
