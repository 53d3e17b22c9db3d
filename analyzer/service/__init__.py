"""The analyzer as a service: telemetry of many GPUs in; jobs, predictions and recommendations out, over HTTP and as metrics.

`epochcast serve` runs two processes: the watcher (``analyzer/live``), which detects and writes what it finds into the store,
and this one, which reads the store, predicts and answers. Nothing here is needed by a node (extra ``service``).
"""
