"""A network as a graph of the operators that run on the GPU (section III-A and Table I of the DNN-occu paper)."""
