"""Settings of the service: read, refused with a sentence, and the example file that names them all."""

import dataclasses
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from epochcast.analyzer.errors import InputError
from epochcast.analyzer.service.config import LimitSettings, Settings, load_settings
from epochcast.analyzer.telemetry.settings import AgentSettings, FilesSettings, NodeSettings, PrometheusSettings

_SOURCES = {"nodes": NodeSettings, "agents": AgentSettings, "prometheus": PrometheusSettings, "files": FilesSettings}


def _example(root: Path) -> str:
    return (root / "systemd" / "analyzer.toml").read_text(encoding="utf-8")


def _uncommented(text: str) -> str:
    return re.sub(r"^#(?=[a-z\[])", "", text, flags=re.MULTILINE)


def test_the_example_names_every_setting_with_its_default(root: Path) -> None:
    assert tomllib.loads(_example(root)) == {}
    table = tomllib.loads(_uncommented(_example(root)))
    _same(table, Settings(), set(Settings.model_fields))
    _same(table["limits"], LimitSettings(), set(LimitSettings.model_fields))
    for name, kind in _SOURCES.items():
        (entry,) = table[name]
        required = {"path": "/data/traces/*"} if name == "files" else {"url": "http://host:1"}
        _same(entry, kind(**required), {field.name for field in dataclasses.fields(kind)})


def _same(table: dict[str, Any], defaults: object, names: set[str]) -> None:
    """Check that the table has each setting; what has a default of its own is shown with it."""
    assert set(table) == names
    for name in names - {"limits", "nodes", "agents", "prometheus", "files", "backends", "url", "path"}:
        default = getattr(defaults, name)
        if default not in (None, "", {}, []):
            assert table[name] == (str(default) if isinstance(default, Path) else default), name


def test_the_example_is_taken_as_it_stands(root: Path, tmp_path: Path) -> None:
    # Two ways to sign in exclude each other, and users need passwords.
    text = re.sub(r"^(user|password_file) = .*$", "", _uncommented(_example(root)), flags=re.MULTILINE)
    path = tmp_path / "analyzer.toml"
    path.write_text(text, encoding="utf-8")
    settings = load_settings(path)
    assert [type(one) for one in settings.sources] == [NodeSettings, AgentSettings, PrometheusSettings, FilesSettings]
    assert settings.backends["convmeter"]["models"]
    assert isinstance(settings, BaseModel)
    assert settings.token_file == Path("/run/credentials/epochcast-analyzer.service/token")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("portt = 1", "unknown setting 'portt'; did you mean 'port'?"),
        ("zzz = 1", "unknown setting 'zzz'; known: host, port"),
        ("[limits]\nbody = 1", "unknown setting 'limits.body'; known: body_bytes"),
        ('[[agents]]\nurl = "http://a:1"\nintervall = 3', "unknown setting 'agents[0].intervall'; did you mean 'interval'?"),
        ("[[agents]]\nnode = 'a'", "lacks agents[0].url, which is required"),
        ("[[agents]]\nurl = 'a'", "url is 'a'; give a full address"),
        ('port = "1"', "sets port to '1'; it must be a valid integer"),
        ("port = true", "sets port to True"),
        ("port = 70000", "sets port to 70000; it must be less than or equal to 65535"),
        ('agents = ["http://a:9911"]', "sets agents[0] to 'http://a:9911'; it must be a table"),
        ("limits = 1", "sets limits to 1; it must be a table"),
        ("keep_days = nan", "sets keep_days to nan"),
        ("read_only = 0", "sets read_only to 0"),
        ("objective = 'fun'", "sets objective to 'fun'"),
        ("[agents]\nx = 1", "sets agents to {'x': 1}"),
        ("a = [", "is not TOML"),
        ("a = " + "[" * 5000, "is not TOML"),
    ],
)
def test_a_wrong_setting_is_one_sentence(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "analyzer.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_settings(path)
    assert sentence in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the configuration .*none\.toml: No such file"):
        load_settings(tmp_path / "none.toml")


def test_only_loopback_addresses_are_local() -> None:
    assert [Settings(host=host).local for host in ("127.0.0.1", "127.9.9.9", "localhost", "::1")] == [True] * 4
    assert [Settings(host=host).local for host in ("0.0.0.0", "::", "10.0.0.1")] == [False] * 3
