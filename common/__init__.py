"""What the programs that stay running on a node share: settings, HTTP and who may ask. It imports the standard library alone.

The agent and the node analyzer depend on it, and nothing heavier may be added here: both run next to training jobs.
"""
