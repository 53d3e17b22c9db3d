"""Words that give our English away stay out of docs, messages, labels, docstrings and comments."""

import subprocess
import sys
from pathlib import Path


def test_words_that_are_gone_stay_away(root: Path) -> None:
    done = subprocess.run([sys.executable, root / ".ci" / "words", "--hard"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and not done.stdout, done.stdout or done.stderr
