"""One sentence and exit code 2 for every kind of bad input; pipes, full disks and interruptions."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest


def test_detect_reads_standard_input(run: Path, answer: Callable[..., dict], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(pd.read_parquet(run).to_csv(index=False)))
    assert answer("detect", "-")["verdict"] == "epochs"


@pytest.mark.parametrize(
    ("before", "redirection", "status", "says"),
    [
        ("", ">&-", 0, ""),
        ("", ">/dev/full", 2, "No space left on device"),
        ("exec 3> >(:); wait $!", ">&3", 1, ""),  # a pipe whose reader is gone
    ],
)
def test_output_that_nobody_takes_is_no_traceback(before: str, redirection: str, status: int, says: str) -> None:
    script = f'{before}\n"$0" -m epochcast.analyzer gpus --json {redirection}'
    done = subprocess.run(["bash", "-c", script, sys.executable], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert says in done.stderr
    assert done.stderr.count("\n") == (1 if says else 0)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["detect", "missing.parquet"], "no such file: 'missing.parquet'"),
        (["profile", "."], "is a folder; name a file in it"),
        (["profile", "empty.json"], "'empty.json': the profile's schema is None"),
        (["detect", "{run}", "--method", "magic"], "'magic' is not one of"),
        (["detect", "idle.csv", "--plot", "nowhere/run.png"], "nowhere"),
        (["detect", "idle.csv", "--plot", "run.xyz"], "run.xyz"),
        (["predict", "missing.json"], "no such profile file"),
        (["predict", "{profile}", "missing.parquet"], "no such file: 'missing.parquet'"),
        (["predict", "{profile}", "--target", "GTX 10"], "GTX 1080"),
        (["predict", "{profile}", "--target", "Voodoo 2"], "Voodoo 2"),
        (["predict", "{run}", "--gpu", ""], "--gpu is ''"),
        (["predict", "{profile}", "--gpus", "missing.toml"], "missing.toml"),
        (["predict", "{profile}", "--model", "no-such-model"], "no-such-model"),
        (["predict", "{profile}", "--epochs", "0"], "--epochs is 0; give 1 or more"),
        (["predict", "nameless.csv"], "--gpu"),
        (["predict", "junk.json"], "junk.json"),
        (["predict", "deep.json"], "deep.json"),
        (["recommend", "{profile}", "--prices", "missing.csv"], "no such price file"),
        (["recommend", "{profile}", "--deadline", "-5"], "--deadline in seconds is -5; give a number above 0"),
        (["recommend", "{profile}", "--epochs", "1" + 400 * "0"], "give 1000000000 or less"),
        (["fit", "regressor", "--data", "missing.csv", "--out", "model"], "missing.csv"),
        (["fit", "regressor", "--data", "missing.csv", "--out", "junk.json/model"], "cannot write the model"),
        (["fit", "regressor", "--data", "missing.csv", "--out", "."], "has no model of `epochcast fit regressor`"),
        (["fit", "regressor", "--data", "nameless.csv", "--out", "model"], "nameless.csv"),
        (["detect"], "Missing argument 'TRACE...'"),
        (["detect", "{run}", "--frobnicate"], "--frobnicate"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing_behind(
    arguments: list[str],
    says: str,
    run: Path,
    profile: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refusal: Callable[..., str],
) -> None:
    files = {
        "nameless.csv": "time,gr_engine_active\n1.0,0.5\n1.1,0.6\n",
        "idle.csv": "time,gr_engine_active\n" + "".join(f"{tick / 10},0\n" for tick in range(100)),
        "empty.json": "{}",
        "junk.json": "[1, 2",
        "deep.json": "[" * 100_000,
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    assert says in refusal(*(argument.format(run=run, profile=profile) for argument in arguments))
    assert {path.name for path in tmp_path.iterdir()} == set(files)


def test_ctrl_c_while_the_commands_are_loaded_is_no_traceback(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'epochcast.analyzer.cli':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from epochcast.analyzer.entry import main\n"
        "sys.exit(main())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "")
