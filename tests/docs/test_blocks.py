"""Blocks that are no commands: each names its language, and is in it; settings are taken by the programs' own loaders."""

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from epochcast.agent.config import Config
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.node.config import NodeConfig
from epochcast.analyzer.service.config import load_settings
from epochcast.common.settings_file import load

KNOWN = ("sh", "bash", "console", "toml", "yaml", "json", "python", "csv", "text", "promql", "ini", "html")

# What a TOML block is, by its first table or key where it is no configuration of ours.
_OTHER_TOML = re.compile(r"^\[\[(gpu|link|workload|overhead)\]\]|^\[build-system\]|^\[backends", re.MULTILINE)


def test_a_block_names_its_language_and_is_in_it(block: Any) -> None:
    where = f"{block.page}:{block.line}"
    assert block.language in KNOWN, f"{where}: name the block's language, one of {', '.join(KNOWN)}"
    if block.language == "toml":
        tomllib.loads(block.text)
    elif block.language == "yaml":
        list(yaml.safe_load_all(block.text))
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "python":
        ast.parse(block.text)


def test_settings_are_accepted(block: Any, tmp_path: Path) -> None:
    if block.language != "toml" or _OTHER_TOML.search(block.text):
        return
    path = tmp_path / "settings.toml"
    path.write_text(block.text, encoding="utf-8")
    refused = []
    for read in (lambda: load(Config, path, {}), lambda: load(NodeConfig, path, {}), lambda: load_settings(path)):
        try:
            read()
            return
        except (InputError, ValueError) as error:
            refused.append(str(error))
    pytest.fail(f"{block.page}:{block.line} is no configuration of agent, node or service: {'; '.join(refused)}")


def test_a_page_says_whom_it_is_for(page: Path, root: Path) -> None:
    place = page.relative_to(root)
    if place.parts[0] == "docs" and place.parts[1] != "decisions":
        text = re.sub(r"<!--.*?-->\n", "", page.read_text(encoding="utf-8"))
        assert re.match(r"# [^\n]+\n+\*For [^\n]+\*\n", text), f"{place}: the line behind the title says whom it is for"
