"""Blocks that are no commands: each names its language, and is in it; settings are taken by the programs' own loaders."""

import ast
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from epochcast.agent.config import Config
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.node.config import NodeConfig
from epochcast.analyzer.service.config import load_settings
from epochcast.common.settings_file import load

from .pages import Block, blocks

KNOWN = ("sh", "bash", "console", "toml", "yaml", "json", "python", "csv", "text", "diff", "promql", "ini", "html")

_PARSERS: dict[str, Callable[[str], object]] = {
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "json": json.loads,
    "python": ast.parse,
}

# What a TOML block is, by its first table or key where it is no configuration of ours.
_OTHER_TOML = re.compile(
    r"^\[\[(gpu|link|workload|overhead)\]\]|^\[build-system\]|^\[project|^\[backends|^nvml_name", re.MULTILINE
)


def test_every_block_names_its_language_and_is_in_it() -> None:
    wrong = []
    for block in blocks():
        if block.language not in KNOWN:
            wrong.append(f"{block.where}: name the block's language, one of {', '.join(KNOWN)}")
        try:
            _PARSERS.get(block.language, str)(block.text)
        except (ValueError, SyntaxError, yaml.YAMLError) as error:
            wrong.append(f"{block.where} is no {block.language}: {error}")
    assert not wrong, "\n".join(wrong)


def settings() -> list[Block]:
    """The blocks that are settings of agent, node or service."""
    return [one for one in blocks() if one.language == "toml" and not _OTHER_TOML.search(one.text)]


@pytest.mark.parametrize("block", settings(), ids=lambda block: block.where)
def test_settings_are_accepted(block: Block, tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(block.text, encoding="utf-8")
    refused = []
    for read in (lambda: load(Config, path, {}), lambda: load(NodeConfig, path, {}), lambda: load_settings(path)):
        try:
            read()
            return
        except (InputError, ValueError) as error:
            refused.append(str(error))
    pytest.fail(f"{block.where} is no configuration of agent, node or service: {'; '.join(refused)}")
