"""Makes made_jobs.py importable by these tests: import mode importlib puts no folder on the path."""

import importlib.util
import sys
from pathlib import Path

_spec = importlib.util.spec_from_file_location("made_jobs", Path(__file__).with_name("made_jobs.py"))
assert _spec is not None and _spec.loader is not None
sys.modules["made_jobs"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sys.modules["made_jobs"])
