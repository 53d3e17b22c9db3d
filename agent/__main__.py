"""``python -m epochcast.agent``."""

import sys

from .cli import main

sys.exit(main())
