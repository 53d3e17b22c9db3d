"""What the programs that stay running on a node share: settings, HTTP and who may ask. It imports the standard library alone.

The agent and the node analyzer are made of it, and nothing heavier may come in here: both run beside trainings.
"""
