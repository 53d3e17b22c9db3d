"""The node agent: reads the GPUs at 10 Hz, keeps every sample, and exports them over HTTP."""
