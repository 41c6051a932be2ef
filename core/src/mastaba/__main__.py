"""``python -m mastaba``."""

import sys

from mastaba.commands.main import main

sys.exit(main())
