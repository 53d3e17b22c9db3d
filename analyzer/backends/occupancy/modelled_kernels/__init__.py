"""Which kernels a graph would launch on a GPU, by rules and public traces, where no training was measured."""
