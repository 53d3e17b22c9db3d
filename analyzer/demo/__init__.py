"""``epochcast demo``: the whole path on one machine without a GPU, with a real training of its own to detect."""
