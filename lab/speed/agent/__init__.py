"""Measurements of agent."""
