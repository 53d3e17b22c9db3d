"""A fleet that is not there: traces of thousands of GPUs whose jobs, epochs, stragglers and idle hours are known exactly.

`layout` says which node has what and which job runs where, `job_timelines` what a job does, `gpu_trace` what one GPU shows of
it, and `write_fleet` writes all of it. Everything derived from it must be marked *simulated*.
"""

from lab.simulated_fleet.write_fleet import FleetSettings, write_fleet

__all__ = ["FleetSettings", "write_fleet"]
