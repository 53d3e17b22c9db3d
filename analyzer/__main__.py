"""``python -m epochcast.analyzer`` is ``epochcast``."""

import sys

from .entry import main

sys.exit(main())
