"""What a job is: its type and its family, from the names that people give networks."""

import re
from functools import lru_cache
from typing import Literal, get_args

JobType = Literal["cnn", "transformer", "llm", "diffusion", "recsys", "speech", "rnn"]
"""Jobs of one type use a GPU alike: the same share of matrix products, memory traffic and short kernels."""

JOB_TYPES: tuple[JobType, ...] = get_args(JobType)

# Pieces of names, the first that fits counts: "densenet" before "dense", "transformer" before what contains "former".
_TYPES: tuple[tuple[JobType, str], ...] = (
    ("diffusion", r"diffusion|flux|sdxl|\bdit\b"),
    ("recsys", r"recommend|\bncf\b|dlrm|deepfm|vae-?cf|two.?tower|bert4rec|sasrec"),
    ("speech", r"speech|tacotron|waveglow|wavenet|jasper|quartznet|fastpitch|hifi-?gan|rnn-?t\b|wav2vec|whisper|conformer"),
    ("rnn", r"gnmt|lstm|\bgru\b|\brnn\b|seq2seq"),
    ("llm", r"llama|gpt|\bmpt|mistral|mixtral|qwen|falcon|gemma|deepseek|nemotron|opt-\d|pythia|\bmoe\b"),
    (
        "cnn",
        r"res.?ne[xs]?t|rn50|vgg|densenet|mobilenet|mnasnet|mnist|cifar|shufflenet|squeezenet|efficientnet|inception|alexnet|lenet"
        r"|convne?[xt]|rcnn|\bssd|u-?net|yolo|retinanet|xception|regnet|\bcnn\b|wide_resnet",
    ),
    ("transformer", r"transformer|bert|electra|\bt5\b|\bvit|swin|deit|xlnet"),
)

# Equal networks under the names of several collections and sizes; "rn50" is MLPerf's.
_NETWORKS = (
    *("resnext", "resnet", "rn50", "transformerxl", "electra", "bert", "ncf", "maskrcnn", "unet", "efficientnet", "rnnt"),
    *("shufflenet", "mobilenet", "densenet", "vgg", "llama", "tacotron"),
)


def job_type_of(name: str) -> JobType | None:
    """The type of a job by the name of its network ("PyTorch/LanguageModeling/BERT": transformer); None where none fits."""
    return next((job_type for job_type, words in _TYPES if re.search(words, name.lower())), None)


@lru_cache(1000)
def network_family(name: str) -> str:
    """The network in a name, without what a collection adds to it ("PyTorch/LanguageModeling/BERT": bert)."""
    plain = "".join(letter for letter in name.lower().rpartition("/")[2] if letter.isalnum())
    network = next((network for network in _NETWORKS if network in plain), plain)
    return "resnet" if network == "rn50" else network
