"""Detection while jobs run: samples of many GPUs in, epochs and profiles out, kept over restarts.

Runs next to the agent (``epochcast serve --node``) and in the watcher process of the service, so it loads numpy, scipy and
nothing heavier. One file per part: `gpu_watch` (one GPU), `known_epochs`, `thinned_samples`, `state_store` (SQLite),
`watcher` (all GPUs of all telemetry sources), `metrics`.
"""
