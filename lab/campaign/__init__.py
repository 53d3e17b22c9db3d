"""Campaigns: train a list of workloads on the user's own device, record each, and fill a corpus with them.

Nothing is imported here: the training programs lie in this package too, and start-up would cost each of them seconds.
"""
