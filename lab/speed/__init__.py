"""What is measured by hand: speed and cost beside named peers, and the tables of the docs."""
