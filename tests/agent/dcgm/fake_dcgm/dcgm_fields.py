"""Stand-in for DCGM's module of this name."""

DCGM_FE_GPU = 1
DCGM_FE_GPU_I = 4
