"""A corpus: runs of campaigns and imported ones, one row each in ``corpus.parquet``, with their traces and labels."""

from epochcast.analyzer.corpus.run import Run
from epochcast.analyzer.corpus.table import append_run, read_runs

__all__ = ["Run", "append_run", "read_runs"]
