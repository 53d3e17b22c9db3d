"""A user's own GPU, as its file describes it: all that is needed, and no more."""

MY_GPU = """[[gpu]]
name = "My GPU"
compute_capability = 8.9
sm_count = 100
cuda_cores = 12_800
boost_clock = 2.4e9
memory = 34_359_738_368
memory_bandwidth = 9.0e11
tdp = 300
"""
