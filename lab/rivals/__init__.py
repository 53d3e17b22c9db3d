"""What our own methods are compared with: other people's, simpler and trivial ones."""
