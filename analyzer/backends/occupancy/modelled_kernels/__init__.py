"""Which kernels a graph would launch on a GPU, by rules and public traces; nothing here is measured on a GPU.

It exists so that occupancy can be estimated, and the whole path from graphs to packing exercised, where no measurement is.
"""
