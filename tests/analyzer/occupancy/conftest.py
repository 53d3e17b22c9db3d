"""Makes the modules ``made_*.py`` beside it importable by these tests: import mode importlib puts no folder on the path."""

import importlib.util
import sys
from pathlib import Path

for _path in Path(__file__).parent.glob("made_*.py"):
    _spec = importlib.util.spec_from_file_location(_path.stem, _path)
    assert _spec is not None and _spec.loader is not None
    sys.modules[_path.stem] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules[_path.stem])
