"""What communication costs: links and clusters, collectives over them, measured all-reduces where there are some."""
