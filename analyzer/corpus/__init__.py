"""What the black box is fitted to: profiles, and folders of traces with their labels."""
