"""Finds and builds a network by what the user calls it."""
