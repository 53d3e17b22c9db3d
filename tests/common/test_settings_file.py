"""The loader of settings: a dataclass of every type that settings have, and what a file may say wrongly."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from epochcast.common.errors import InputError
from epochcast.common.settings_file import check_address, load, whole_url


@dataclass(frozen=True)
class Web:
    certificate: Path | None = None
    connections: int = 8


@dataclass(frozen=True)
class Settings:
    host: str = "127.0.0.1"
    port: int = 9911
    speed: float = 1.0
    compress: bool = False
    state: Path = Path("state.db")
    replay: Path | None = None
    tiers: Mapping[str, str] = field(default_factory=dict)
    web: Web = field(default_factory=Web)

    def __post_init__(self) -> None:
        check_address(self.host, self.port)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "some.toml"


def test_defaults_then_the_file_then_what_is_laid_over_it(file: Path) -> None:
    assert load(Settings, None, {}) == Settings()
    file.write_text(
        'port = 1\nspeed = 2\ncompress = true\nreplay = "run.csv"\ntiers = {power = "off"}\n[web]\ncertificate = "a.pem"\n'
    )
    loaded = load(Settings, file, {"port": 0})
    assert loaded == Settings(
        port=0, speed=2, compress=True, replay=Path("run.csv"), tiers={"power": "off"}, web=Web(certificate=Path("a.pem"))
    )


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("prot = 1", "has the unknown setting 'prot'; did you mean 'port'?"),
        ("zzz = 1", "has the unknown setting 'zzz'; known: host, port, speed, compress, state, replay, tiers, web"),
        ("[web]\nconections = 1", "has the unknown setting 'web.conections'; did you mean 'web.connections'?"),
        ("[web]\nprot = 1", "has the unknown setting 'web.prot'; known: web.certificate, web.connections"),
        ('port = "9911"', "sets port to '9911'; it must be a whole number"),
        ("port = 1.5", "sets port to 1.5; it must be a whole number"),
        ("port = true", "sets port to True; it must be a whole number"),
        ("speed = true", "sets speed to True; it must be a number"),
        ("speed = inf", "sets speed to inf; it must be finite"),
        ("compress = 1", "sets compress to 1; it must be true or false"),
        ("host = 3", "sets host to 3; it must be text"),
        ("state = 3", "sets state to 3; it must be a path"),
        ('replay = "a\\u0000b"', r"has a NUL character (\u0000), which no setting may hold"),
        ("tiers = 3", "sets tiers to 3; it must be a table"),
        ("web = 3", "sets web to 3; it must be a table"),
        ('[web]\nconnections = "many"', "sets web.connections to 'many'; it must be a whole number"),
        ("speed =", "is not TOML: "),
        (f"port = 1{'0' * 5000}", "is not TOML: "),
        (f"tiers = {'[' * 5000}", "is not TOML: "),
    ],
)
def test_a_wrong_file_is_one_sentence_that_names_it(file: Path, text: str, sentence: str) -> None:
    file.write_text(f"{text}\n")
    with pytest.raises(InputError) as caught:
        load(Settings, file, {})
    assert str(caught.value).startswith(f"the configuration {file} {sentence}")
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_read_is_one_sentence(file: Path) -> None:
    with pytest.raises(InputError, match=rf"^cannot read the configuration {file}: No such file or directory$"):
        load(Settings, file, {})
    file.write_bytes(b"\xff")
    with pytest.raises(InputError, match="is not TOML"):
        load(Settings, file, {})


def test_a_value_out_of_range_is_refused_by_the_settings_themselves(file: Path) -> None:
    file.write_text("port = 65536\n")
    with pytest.raises(InputError, match=r"^port is 65536; give 0 \(any free port\) to 65535$"):
        load(Settings, file, {})
    with pytest.raises(InputError, match=r"^host is empty; give an address, as in 127.0.0.1"):
        load(Settings, None, {"host": ""})


@pytest.mark.parametrize(
    "url", ["prometheus", "ftp://p", "http://", "http://[::1/w", "http://p:9o90/w", "http://p:99999/w", "http://p:0"]
)
def test_an_address_that_nobody_can_ask_is_not_whole(url: str) -> None:
    assert whole_url(url) is None
    assert whole_url("https://[::1]:9911/w") is not None
