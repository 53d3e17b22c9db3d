"""Configurations broken in five hundred ways a program: each is refused with 2 and one short line, none ends in a traceback."""

import random
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from epochcast.agent import cli as agent
from epochcast.agent.daemon import Daemon
from epochcast.analyzer.entry import main as epochcast
from epochcast.analyzer.node import process as node
from epochcast.analyzer.service import process as service
from epochcast.common import logs
from epochcast.common.errors import LONGEST_SENTENCE

FILES = 500
# Settings of the examples that exclude each other, or that name what is not on every machine.
LEFT_OUT = (
    "replay|pid|cgroup|port|port_file|compat|certificate|key|client_ca|users|bindings|user|password_file|token_file|ca|state"
    "|gpus|model|prices|inventory|models"
)
VALUES = [
    *("nan", "inf", "-1", "0", "1e308", "9" * 5000, "9223372036854775808", "0x7fffffffffffffff", "-0.0", "1e-320", "true"),
    *("[]", "[1, 2]", "[{}]", "[[1]]", "[" * 3000, "{a = 1}", '{"k" = "' + "v" * 5000 + '"}', "1979-05-27", "07:32:00"),
    *("'", "", '""', '"' + "x" * 100_000 + '"', '"""one\ntwo"""', r'"\u0000"', r'"\u001b[31m\r\u2028"', r'"\uD83D"', '"ü"'),
    *('"/proc' + "/no" * 1000 + '"', '"/"', '"a b"', '"http://[::1"', '"http://a:99999999"'),
]
LINES = ["[", "[x]", "[[x]]", "[" + "y" * 5000 + "]", "= 1", "\0", "z" * 5000, "x.y.z = 1", "[web]", "[[push]]", "[[nodes]]"]


def broken(text: str, chance: random.Random) -> bytes:
    """Change one line or a few of a settings file: its value, its name, its end, all of it."""
    lines = text.splitlines()
    settings = [number for number, line in enumerate(lines) if " = " in line]
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        number = chance.choice(settings)
        name = lines[number].split(" = ")[0]
        names = (name[:-1], f"{name}s", name.upper(), (name * 5000)[:20_000], "é", '"' + "q" * 9000 + '"', f'"{name}\\n\\n"')
        lines[number] = chance.choice(
            (
                f"{name} = {chance.choice(VALUES)}",
                f"{name} = {chance.choice(VALUES)}",
                lines[number].replace(name, chance.choice(names), 1),
                f"{lines[number]}\n{lines[chance.choice(settings)]}",
                chance.choice(LINES),
                lines[number][: chance.randrange(len(lines[number]) + 1)],
            )
        )
    data = "\n".join(lines).encode()
    return data + b"\xff\xfe" if chance.random() < 0.02 else data


@pytest.mark.parametrize("program", ["agent", "node", "analyzer"])
def test_each_broken_configuration_is_one_short_line(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: str
) -> None:
    def nothing(*_: Any) -> None:
        pass

    def start() -> int:
        if program == "agent":
            return agent.main(["--config", str(path)])
        options = ["--node"] if program == "node" else []
        monkeypatch.setattr(sys, "argv", ["epochcast", "serve", *options, "--config", str(path)])
        return epochcast()

    monkeypatch.chdir(tmp_path)
    # What a start does after its settings are accepted. The agent's sources are opened: some settings are refused by them.
    monkeypatch.setattr(Daemon, "run", lambda daemon: (daemon._stop_sampling(), daemon._server.server_close()))
    # Of the process of all tests.
    monkeypatch.setattr(signal, "signal", nothing)
    monkeypatch.setattr(logs, "setup", nothing)
    monkeypatch.setattr(node, "_run", nothing)
    monkeypatch.setattr(service, "_run", nothing)
    shipped = (root / "systemd" / f"{program}.toml").read_text(encoding="utf-8")
    example = re.sub(r"^#(?=[a-z\[])", "", shipped, flags=re.MULTILINE)
    left_out, first = (f"url|{LEFT_OUT}", "") if program == "agent" else (LEFT_OUT, f'state = "{tmp_path}/state.db"\n')
    usable = f"port = 0\n{first}" + re.sub(rf"^(#.*|({left_out}) = .*|)\n", "", example, flags=re.MULTILINE)
    path = tmp_path / "settings.toml"
    path.write_text(usable, encoding="utf-8")
    assert start() == 0, capsys.readouterr().err
    chance = random.Random(33)
    refused = 0
    for number in range(2 * FILES):
        path.write_bytes(broken(usable, chance))
        capsys.readouterr()
        status = start()
        if status == 0:  # still a configuration
            continue
        refused += 1
        (line,) = capsys.readouterr().err.splitlines()
        sentence = line.partition(": ")[2]
        assert status == 2, number
        assert len(sentence) <= LONGEST_SENTENCE and sentence.isprintable(), (number, sentence)
        if refused == FILES:
            return
    pytest.fail(f"only {refused} of them were refused")
