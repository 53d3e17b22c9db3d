"""Makes the modules ``made_*.py`` of these folders importable by these tests."""

from pathlib import Path

from ...loose_modules import make_importable

for _path in sorted(Path(__file__).parent.rglob("made_*.py"), key=lambda path: path.name):
    make_importable(_path)
