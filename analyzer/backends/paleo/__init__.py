"""Paleo: training time from architecture and data sheet alone, what the paper compares itself with (Table VI).

Only ``layers``, which takes a network apart, loads torch.
"""
