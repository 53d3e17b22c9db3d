"""Figures of the papers and of the workshop."""
