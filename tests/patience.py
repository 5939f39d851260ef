"""How long tests wait."""

PATIENCE_SEC = 240
"""For anything. A busy machine needs long for what an idle one does at once."""
