"""Makes the modules ``made_*.py`` beside it importable by these tests."""

from pathlib import Path

from ...loose_modules import make_importable

for _path in Path(__file__).parent.glob("made_*.py"):
    make_importable(_path)
