"""``python -m mastaba``."""

import sys

from mastaba.cli import main

sys.exit(main())
