"""How well forms predict networks that they were not fitted on: protocols, and the figures of the paper's tables."""
