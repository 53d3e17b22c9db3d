"""``epochcast predict``: the command of the backend ``black-box``."""

from __future__ import annotations

from epochcast.analyzer.answers.black_box import BlackBox
from epochcast.analyzer.cli.backend_command import backend_command

predict = backend_command(BlackBox)
