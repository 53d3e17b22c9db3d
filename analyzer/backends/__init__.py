"""Predictors and workloads that know the architecture: the one place of the analyzer that imports torch (extra ``torch``).

No command imports this at its start: what needs it does so when it is used, or in a process of its own.
"""
