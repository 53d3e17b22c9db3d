"""``epochcast predict``."""

from __future__ import annotations

from pathlib import Path

import click

from ...regressor import LatencyPredictor, load_catalog
from ...regressor.explain import Effect
from ...regressor.explain import explain as explain_ratio
from ...regressor.precision import Precision
from ..answers.job_result import JobQuestion, JobResult, answer_job
from ..answers.sources import read_sources, with_precision
from ..errors import InputError
from ..instances import load_instances
from ..recommendation import Work
from . import terminal
from .job_options import batch_may_grow_option, per_step, precision_option
from .predict_text import sentences
from .recipe import Recipe, load_predictor, recipe_option
from .shared_options import gpus_option, json_option, recorded_gpu_option, regressor_option


@click.command()
@click.argument("traces_or_profiles", nargs=-1, required=True)
@recorded_gpu_option
@click.option("--target", "targets", multiple=True, metavar="NAME", help="GPU to predict for (repeatable). [default: all]")
@gpus_option
@click.option(
    "--target-gpus",
    type=click.IntRange(1),
    metavar="N",
    help="Number of GPUs in the target machine. [default: as many as here]",
)
@batch_may_grow_option
@click.option(
    "--epochs", type=int, metavar="N", help="Epochs (or cycles, or steps) in the whole job; adds its time and energy."
)
@per_step
@precision_option("the job's matrix products")
@recipe_option
@click.option("--explain", is_flag=True, help="Show which features moved each answer most.")
@regressor_option
@click.option(
    "--plot",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Draw the ratio on every GPU with its interval (PNG, SVG, PDF).",
)
@json_option
def predict(
    traces_or_profiles: tuple[str, ...],
    gpu: str | None,
    targets: tuple[str, ...],
    gpus: Path | None,
    target_gpus: int | None,
    batch_may_grow: bool,
    epochs: int | None,
    samples_per_step: float | None,
    tokens_per_step: float | None,
    precision: Precision | None,
    recipe: Recipe,
    explain: bool,
    model: Path | None,
    plot: Path | None,
    as_json: bool,
) -> int:
    """Predict the epoch time on every GPU of the catalogue from a trace or a profile (.json). Exits 1 if the job fits none.

    Several traces, the traces in a folder, or the GPUs in one log count as one job, which is as slow as its slowest GPU.

    \b
    Example: epochcast predict run.parquet --target A10G --epochs 90
             epochcast predict run.gpu0.parquet run.gpu1.parquet
             epochcast predict runs/ --tokens-per-step 524288
             epochcast predict run.parquet --plot ratios.png
             epochcast predict run.parquet --target "H100 SXM5" --target-gpus 8
             epochcast predict run.parquet --recipe paper --model my-paper
    """
    if explain and recipe != "default":
        raise InputError(f"--explain explains answers of recipe 'default', not of {recipe!r}; leave it out")
    catalog = load_catalog(gpus)
    read, of_job = read_sources(traces_or_profiles, catalog, gpu)
    result = answer_job(
        [with_precision(source, precision) for source in read],
        load_predictor(recipe, model, catalog),
        load_instances(None, catalog)[0],
        JobQuestion(
            targets=targets or None,
            work=None if epochs is None else Work(epochs),
            target_gpus=target_gpus,
            batch_may_grow=batch_may_grow,
            samples_per_step=samples_per_step,
            tokens_per_step=tokens_per_step,
        ),
        of_job=of_job,
    )
    explanations = _explanations(result) if explain else None
    if plot is not None:
        from ..figures import predictions_figure, save_figure

        fitting = [answer.prediction for answer in result.answers if answer.fits is not False]
        figure = predictions_figure(fitting, result.profile.gpu)
        save_figure(figure, plot, simulated=result.simulated)
    if as_json:
        from ..answers.job_json import prediction_answer

        click.echo(prediction_answer(result, explanations).model_dump_json(indent=2))
    else:
        terminal.say(sentences(result, explanations, in_full=bool(targets)))
        terminal.notes(result.prediction_notes)
    return 0 if any(answer.fits is not False for answer in result.answers) else 1


def _explanations(result: JobResult) -> dict[str, list[Effect]]:
    assert isinstance(result.predictor, LatencyPredictor)  # --explain belongs to it
    asked = [(answer.prediction.gpu, result.sources[answer.slowest].profile) for answer in result.answers]
    return {gpu: explain_ratio(result.predictor, profile, gpu) for gpu, profile in asked}
