"""``python -m lab.measure NAME``: take the measurements that white boxes are fitted to."""
