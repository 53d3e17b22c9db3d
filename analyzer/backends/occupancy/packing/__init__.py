"""Packing jobs on GPUs by predicted occupancy, simulated: section VI of the DNN-occu paper. Free of torch."""
