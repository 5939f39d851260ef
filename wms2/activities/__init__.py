"""Temporal activities: thin classes that hold their adapters and do what the workflows decided."""
