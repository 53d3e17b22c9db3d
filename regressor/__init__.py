"""Latency prediction: one profile in, latency on every target GPU out."""
