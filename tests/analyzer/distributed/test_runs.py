"""Tables of measured runs: vTrain's columns and one's own."""

import pytest

from epochcast.analyzer.backends.distributed.runs import read_runs
from epochcast.analyzer.errors import InputError

VTRAIN = (
    "Parameters (billion),# GPUs,global batch,micro batch,hidden size,attention heads,# layers,sequence length,"
    "tensor parallelism,data parallelism,pipeline parallelism,iteration time (ms)\n"
)
ROW = "3.6,64,512,8,3072,32,30,2048,2,16,2,4000\n"


def write(tmp_path, text):
    path = tmp_path / "runs.csv"
    path.write_text(text)
    return path


def test_a_row_of_vtrain_is_a_job_of_megatron(tmp_path) -> None:
    (run,) = read_runs(write(tmp_path, VTRAIN + ROW))
    assert (run.seconds, run.group, run.gpu, run.gpus_per_node) == (4.0, "3.6B", "A100 SXM4 80GB", 8)
    assert run.model == "gpt:hidden=3072,layers=30,heads=32,vocab=51200"
    assert (run.job.data, run.job.tensor, run.job.pipeline, run.job.micro_batches) == (16, 2, 2, 4)
    assert (run.job.precision, run.job.recomputation, run.job.attention) == ("fp16", "full", "eager")
    assert (run.job.fused_kernels, run.job.tensor_overlap, run.job.overlap) == (True, True, False)
    assert (run.intra, run.inter) == (None, "4x InfiniBand HDR")


def test_a_configuration_measured_twice_is_one_run(tmp_path) -> None:
    (run,) = read_runs(write(tmp_path, VTRAIN + ROW + ROW.replace("4000", "4400")))
    assert run.seconds == pytest.approx(4.2)


def test_own_columns_take_what_a_job_has(tmp_path) -> None:
    text = "model,gpu,seconds,data,precision,global_batch,zero,overlap,inter\ngpt2,T4,0.5,4,amp-fp16,8,1,true,\n"
    (run,) = read_runs(write(tmp_path, text))
    assert (run.model, run.gpu, run.seconds, run.inter, run.group) == ("gpt2", "T4", 0.5, None, "gpt2")
    assert (run.job.data, run.job.precision, run.job.zero, run.job.overlap) == (4, "amp-fp16", 1, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (VTRAIN, "has no rows"),
        (VTRAIN + ROW.replace("4000", "-1"), "row 2.*above 0"),
        (VTRAIN + ROW.replace("4000", "soon"), "row 2.*above 0"),
        (VTRAIN + ROW.replace("64", "63"), "64 ranks on 63 GPUs"),
        (VTRAIN + ROW.replace("512,8", "500,8"), "global batch of 500"),
        ("model,gpu\ngpt2,T4\n", "seconds"),
        ("model,gpu,seconds,speed\ngpt2,T4,1,fast\n", "speed.*seen: 'fast'"),
        ("model,gpu,seconds,precision\ngpt2,T4,1,fp7\n", "unknown precision 'fp7'"),
        ("model,gpu,seconds\ngpt2,T4,0\n", "seconds.*greater than 0"),
    ],
)
def test_a_bad_table_is_one_sentence(tmp_path, text, message) -> None:
    with pytest.raises(InputError, match=message):
        read_runs(write(tmp_path, text))


def test_a_missing_file_is_named(tmp_path) -> None:
    with pytest.raises(InputError, match=r"absent\.csv"):
        read_runs(tmp_path / "absent.csv")
