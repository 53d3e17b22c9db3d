"""``python -m epochcast.agent``."""

import sys

from epochcast.agent.cli import main

sys.exit(main())
