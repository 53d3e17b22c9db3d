"""A whole fleet at once: thousands of traces in a folder, an object store or a Prometheus; one report.

`traces_of` lists what there is, `gpu_history` makes the finding of one GPU's trace, `execution` does that on processes or on
Dask, `findings_store` keeps what was found so that a killed run goes on, `fleet_jobs` puts GPUs together and prices them, and
`report` shows it.
"""
