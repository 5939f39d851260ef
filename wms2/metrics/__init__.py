"""What Prometheus is told of the whole system. What a worker knows of itself is told by the worker."""
