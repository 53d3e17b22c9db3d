"""Damaged files of every format that is read: an answer or one sentence, never a traceback."""

import json
import random
from pathlib import Path

import pytest

from epochcast.analyzer.cli import main
from epochcast.detector import Detection

_TICKS = range(24)
_SMI = [f"2026/11/20 18:49:{tick // 2:02d}.{5 * (tick % 2)}00" for tick in _TICKS]
_SERIES = [
    {"metric": {"__name__": name, "gpu": gpu, "UUID": f"GPU-{gpu}"}, "values": [[1.7e9 + tick, str(tick)] for tick in _TICKS]}
    for name in ("DCGM_FI_DEV_GPU_UTIL", "loss")
    for gpu in "01"
]
GOOD = {
    "nvidia-smi": "timestamp, index, utilization.gpu [%], power.draw [W]\n"
    + "".join(f"{time}, {gpu}, {tick} %, [N/A]\n" for tick, time in enumerate(_SMI) for gpu in range(2)),
    "nvidia-smi in bursts": "timestamp, name, utilization.gpu [%]\n"
    + "".join(f"{time}, Tesla T4, {tick} %\n" for tick, time in enumerate(_SMI) for _ in range(3)),
    "nvidia-smi noheader": "".join(
        f"{time}, GPU-{gpu}a-b, {tick}, 66.4\n" for tick, time in enumerate(_SMI) for gpu in range(2)
    ),
    "nvidia-smi of a command": "# nvidia-smi --query-gpu=timestamp,index,power.draw --format=csv,noheader\n"
    + "".join(f"{time}, {gpu}, 66.4 W\n" for time in _SMI for gpu in range(2)),
    "dcgmi": "# dcgmi dmon -e 1002,157 -d 100\n#Entity SMACT POWINST\nID W\n"
    + "".join(f"GPU {gpu} 0.{tick:02d} 300.5\n" for tick in _TICKS for gpu in range(2)),
    "dcgmi stamped": "1700000000.0 #Entity SMACT\n1700000000.1 ID\n"
    + "".join(f"{1.7e9 + tick / 10:.6f} GPU {tick % 2} 0.{tick:02d}\n" for tick in _TICKS),
    "prometheus": json.dumps({"status": "success", "data": {"resultType": "matrix", "result": _SERIES}}),
    "grafana": '"Time","{__name__=""up"", gpu=""0""}","loss, GPU 1"\n'
    + "".join(f"{1700000000000 + 15000 * tick},{tick},1\n" for tick in _TICKS),
    "dates": "timestamp,power\n" + "".join(f"2026-11-20T18:49:{tick:02d}Z,{tick}\n" for tick in _TICKS),
    "milliseconds": "time,power\n" + "".join(f"{1700000000000 + 100 * tick},{tick}\n" for tick in _TICKS),
    "own": '# {"gpu": "Tesla T4", "static": {}}\ntime,power\n' + "".join(f"{1.7e9 + tick},{tick}\n" for tick in _TICKS),
}
PIECES = [
    "",
    ",",
    "\n",
    '"',
    "#",
    "{",
    "}",
    "[",
    "]",
    "\0",
    "é",
    "nan",
    "inf",
    "-1",
    "1e400",
    "9" * 400,
    "null",
    "GPU",
    "timestamp",
    "1e300",
]


def damaged(text: str, dice: random.Random) -> str:
    """The text with a few spots cut, doubled, swapped or written over."""
    for _ in range(dice.choice((1, 1, 2, 5, 20))):
        start = dice.randrange(len(text) + 1)
        end = min(len(text), start + dice.choice((0, 1, 3, 10, 100)))
        lines = text.splitlines(keepends=True) or [""]
        line = dice.randrange(len(lines))
        text = dice.choice(
            (
                text[:start] + dice.choice(PIECES) + text[end:],
                text[:start] + text[end:],
                text[:end] + text[start:],
                text[:start],
                "".join([*lines[:line], *lines[line + 1 :]]),
                "".join([*lines[:line], lines[line], *lines[line:]]),
                "".join(dice.sample(lines, len(lines))) if dice.random() < 0.2 else text,
                text[:start] + chr(dice.randrange(1, 0x2FF)) + text[start + 1 :],
            )
        )
        text = text or "x"
    return text


@pytest.fixture(autouse=True)
def nothing_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The detector has fuzz tests of its own."""
    found = Detection("none", None, None, (), 0.1, "track", "wall")
    monkeypatch.setattr("epochcast.analyzer.cli.detect.find_epochs", lambda *_, **__: found)


@pytest.mark.parametrize("form", GOOD)
def test_the_undamaged_file_is_read(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log"
    path.write_text(GOOD[form])
    assert main(["detect", str(path)]) == 1, "read, and no epochs found"
    assert "no epochs" in capsys.readouterr().out


@pytest.mark.parametrize("form", GOOD)
def test_damaged_files_are_read_or_refused_in_one_sentence(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log"
    refused = 0
    for seed in range(50):  # of 13 forms: 650 files
        text = damaged(GOOD[form], random.Random(f"{form} {seed}"))
        path.write_text(text, encoding="utf-8")
        status = main(["detect", str(path)])
        out, err = capsys.readouterr()
        assert status in (1, 2), (seed, text)
        if status == 2:
            refused += 1
            assert err.startswith("epochcast: ") and err.count("\n") == 1 and len(err) < 1000, (seed, err)
            assert out == ""
    assert 0 < refused < 50
