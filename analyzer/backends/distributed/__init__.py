"""Distributed training time by precision and parallelism (paper 2), one file per step of the way.

``models`` and ``trace`` give the graph, ``partition`` cuts it, ``precision`` and ``operator_time`` time it,
``communication`` and ``schedule`` put it together, ``recipes`` are the ways to do so.
"""
