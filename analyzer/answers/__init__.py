"""What is asked of a job and what it is answered: sources, predictions, recommendation, and their JSON."""
