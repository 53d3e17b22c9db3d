"""Measurements of service."""
