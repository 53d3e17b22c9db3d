"""Accuracy by the project's protocols: measured runs (``by_runs``) and GPUs that no operator was measured on (``by_gpu``)."""
