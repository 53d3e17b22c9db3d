"""Campaigns: train a list of workloads on the user's own device, and record each.

Nothing is imported here: the training programs lie in this package too, and start-up would cost each of them seconds.
"""
