"""The node analyzer, ``epochcast serve --node``: detection next to one agent, numpy and scipy only.

It runs the watcher of ``analyzer/live`` on the agent of its machine, and serves reports, epochs and profiles over HTTP:
`config` (``node.toml``), `process` (what runs, and what is answered), `cli`.
"""
