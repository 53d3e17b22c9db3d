"""Makes made_points.py importable by these tests."""

from pathlib import Path

from ...loose_modules import make_importable

make_importable(Path(__file__).with_name("made_points.py"))
