"""Temporal workflows, nothing else: no file, no socket, no database."""
