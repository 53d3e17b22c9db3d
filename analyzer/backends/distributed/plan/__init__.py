"""A job spread over GPUs: its slices, stages and schedule, what is in flight, and what fits into memory."""
