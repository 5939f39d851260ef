"""One class for each outside system."""
