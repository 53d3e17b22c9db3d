"""Runs that wandb or TensorBoard kept, brought into a corpus with their traces and labels."""

from __future__ import annotations

import filecmp
import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from epochcast.analyzer.corpus.logged_profile import ImportOptions, read_kept_run, told_without_epochs
from epochcast.analyzer.errors import InputError
from epochcast.analyzer.traces.trace import write_trace
from epochcast.common.files import write_whole
from epochcast.regressor import Catalog
from epochcast.regressor.corpora.run_table import FILE_NAME
from lab.corpus.labelled_traces import TRACES
from lab.corpus.run import Run, read_run
from lab.corpus.table import add_run


def import_run(path: Path, corpus: Path, catalog: Catalog, options: ImportOptions) -> Run:
    """Bring a run of wandb or TensorBoard (its folder, or its file) into the corpus, a folder; again, it replaces its own row.

    The trace, and all but the detected epochs, are kept in ``traces/`` as a campaign's are. Raises InputError for a run that
    gives no row, with nothing written, and where the corpus cannot be written.
    """
    kept = read_kept_run(path, options)
    with TemporaryDirectory(prefix="epochcast-import-") as folder:
        files = write_trace(kept.trace, Path(folder) / f"{kept.name}.parquet"), Path(folder) / f"{kept.name}.json"
        files[1].write_text(json.dumps(kept.labels), encoding="utf-8")
        with told_without_epochs():
            run = read_run(*files, catalog, f"{TRACES}/{kept.name}.parquet")
        make_folder(corpus)
        try:
            (corpus / TRACES).mkdir(exist_ok=True)
            for file in files:
                copy_file(file, corpus / TRACES / file.name)
            add_run(corpus, run)
        except OSError as error:
            raise InputError(f"cannot write the corpus {str(corpus)!r}: {error.strerror or error}") from error
    return run


def make_folder(out: Path) -> None:
    """Make the folder of a corpus if it is not there; InputError where that fails, and for a folder of something else."""
    if out.is_dir():
        if not (out / FILE_NAME).exists() and any(path.name[0] != "." and path.name != TRACES for path in out.iterdir()):
            raise InputError(f"{str(out)!r} is a folder but not a corpus; name a corpus, or a new folder")
        return
    try:
        out.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {str(out)!r}: {error.strerror}") from error


def copy_file(source: Path, target: Path) -> None:
    """Copy a file whole or not at all; nothing where there is none, or the target is the same."""
    if not source.is_file() or (target.exists() and filecmp.cmp(source, target, shallow=False)):
        return
    with source.open("rb") as content:
        write_whole(target, lambda file: shutil.copyfileobj(content, file))
