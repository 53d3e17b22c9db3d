"""What a job is: its type and its family, from the names that people give networks."""

import re
from collections.abc import Iterable, Sequence
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
    ("transformer", r"transformer|bert|electra|\bt5\b|\bvit(?!a)|swin|deit|xlnet"),
)

# Equal networks under the names of several collections and sizes; "rn50" is MLPerf's.
_NETWORKS = (
    *("resnext", "resnet", "rn50", "transformerxl", "electra", "bert", "ncf", "maskrcnn", "unet", "efficientnet", "rnnt"),
    *("shufflenet", "mobilenet", "densenet", "vgg", "llama", "tacotron"),
)

NETWORK_KEYS = (
    *("network", "model", "model_name", "architecture", "arch"),
    *("model_type", "model_name_or_path", "pretrained_model_name_or_path", "backbone"),
)
"""Keys of a configuration, and options of a command, that name the network, the commonest first."""


def job_type_of(name: str) -> JobType | None:
    """The type of a job by the name of its network ("PyTorch/LanguageModeling/BERT": transformer); None where none fits."""
    return next((job_type for job_type, words in _TYPES if re.search(words, name.lower())), None)


def network_in(names: Iterable[str], scripts: Iterable[str] = ()) -> tuple[str, JobType] | None:
    """The first network in names of networks and of scripts, without all else ("Llama-3.1-8B": llama), and its type.

    Only the last part of a path counts, as folders are named after people, and of a script whole words ("influx" is no Flux).
    None for none, and for networks of several types.
    """
    found = []
    for before, words in (("", names), ("(?<![a-z])", scripts)):
        for word in words:
            last = word.rstrip("/").rpartition("/")[2].lower().replace("_", "-")
            found += [(match[0], kind) for kind, piece in _TYPES if (match := re.search(f"{before}(?:{piece})", last))]
    return found[0] if len({job_type for _, job_type in found}) == 1 else None


def network_of_command(command: Sequence[str]) -> tuple[str, JobType] | None:
    """`network_in` the options of a command line that name one (``--arch vit``, ``model=vit``), its scripts and program."""
    options, scripts = [], [command[0]]
    for word, following in zip(command, [*command[1:], ""], strict=True):
        key, equals, value = word.partition("=")
        if key.lstrip("-").replace("-", "_") in (*NETWORK_KEYS, "config", "a", "m") and (equals or key.startswith("-")):
            options.append(value if equals else following)
        elif word.endswith((".py", ".sh")):
            scripts.append(word.split()[-1])  # of `sh -c "python train_bert.py"`
    return network_in(options, scripts)


@lru_cache(1000)
def network_family(name: str) -> str:
    """The network in a name, without what a collection adds to it ("PyTorch/LanguageModeling/BERT": bert)."""
    plain = "".join(letter for letter in name.lower().rpartition("/")[2] if letter.isalnum())
    network = next((network for network in _NETWORKS if network in plain), plain)
    return "resnet" if network == "rn50" else network
