"""``python -m epochcast.analyzer`` is ``epochcast``."""

import sys

from epochcast.analyzer.entry import main

sys.exit(main())
