"""``epochcast predict``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from epochcast.analyzer.cli import terminal
from epochcast.analyzer.cli.backend_command import options_of, question_of
from epochcast.analyzer.cli.shared_options import gpus_option, json_option, known_epochs_options
from epochcast.analyzer.jobs.job import answer_job, job_json
from epochcast.analyzer.jobs.prices import load_instances
from epochcast.analyzer.jobs.questions import PREDICTION, SOURCE, JobQuestion
from epochcast.analyzer.jobs.sources import add_description, read_sources
from epochcast.analyzer.jobs.text import prediction_text
from epochcast.analyzer.traces.logs.logged_run import KnownEpochs
from epochcast.regressor import load_catalog
from epochcast.regressor.pipelines import load_predictor


@click.command()
@click.argument("traces_or_profiles", nargs=-1, required=True)
@gpus_option
@known_epochs_options("known")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE", help="Draw the answer (PNG, SVG, PDF).")
@json_option
def predict(
    traces_or_profiles: tuple[str, ...],
    gpus: Path | None,
    plot: Path | None,
    as_json: bool,
    known: KnownEpochs | None,
    **given: Any,
) -> int:
    """Predict the epoch time on every GPU of the catalogue from a trace or a profile (.json).

    Several traces, a folder of traces, or the GPUs in one log count as one job, which is as slow as its slowest GPU. Exits
    1 if the job fits on none of the GPUs.

    \b
    Example: epochcast predict run.parquet --target A10G --epochs 90
             epochcast predict run.gpu0.parquet run.gpu1.parquet
             epochcast predict runs/ --type llm --tokens-per-step 524288
             epochcast predict run.parquet --family resnet50 --inference
             epochcast predict run.parquet --plot ratios.png
             epochcast predict run.parquet --target "H100 SXM5" --target-gpus 8
             epochcast predict run.parquet --pipeline paper
    """
    question = question_of(JobQuestion, given)
    catalog, pipeline = load_catalog(gpus), question.pipeline or "default"
    gpu, number = catalog.split_count(question.gpu)
    read, notes = read_sources(traces_or_profiles, catalog, gpu, pipeline, known)
    job = answer_job(
        [add_description(source, question) for source in read],
        load_predictor(pipeline, question.model, catalog),
        load_instances(None, catalog)[0],
        question,
        gpus=number,
        of_job=notes,
    )
    if plot is not None:
        from epochcast.analyzer.charts import ratios_figure, save_figure

        save_figure(ratios_figure(job), plot, simulated=job.simulated)
    if as_json:
        click.echo(job_json(job, indent=2).decode())
        return job.status
    terminal.say(prediction_text(job))
    terminal.notes(job.notes)
    return job.status


# After the traces, so that the help begins with what says most.
predict.params[1:1] = options_of(JobQuestion, *SOURCE, *PREDICTION, "model")
