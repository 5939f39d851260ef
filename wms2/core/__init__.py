"""Pure logic: every decision is a function of small models, and can be replayed on recorded data."""
