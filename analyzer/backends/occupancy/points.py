"""Measured or modelled occupancies as a table: what predictors are fitted on and tested against.

One row per configuration and GPU. Columns:

    network, family, batch, channels, image_size, sequence, hidden, layers, precision
                      the configuration, as :class:`.configuration.Configuration`; family as in Table II ("cnn", "rnn", …)
    gpu               name in the GPU catalogue
    labels            where the occupancies come from, one of LABELS
    mean, time_mean, max
                      occupancy of the kernels, ratio 0..1: arithmetic mean over launches (the paper's label), mean weighted by
                      duration, maximum
    kernels           launches of one step
    step_s            seconds of one step
    nvml_utilisation  ratio 0..1; NaN where not measured
    memory_bytes      peak device memory of the process
"""

from __future__ import annotations

LABELS = ("launch_config", "modelled", "ncu")
"""``launch_config``: the occupancy calculation over the kernels that a profiler recorded. ``modelled``: the same calculation
over kernels that a model of the launches thinks would run: no measurement. ``ncu``: warps that the hardware counted."""

CONFIGURATION = ("network", "batch", "channels", "image_size", "sequence", "hidden", "layers", "precision")
TARGETS = ("mean", "time_mean", "max")
COLUMNS = (*CONFIGURATION, "family", "gpu", "labels", *TARGETS, "kernels", "step_s", "nvml_utilisation", "memory_bytes")
