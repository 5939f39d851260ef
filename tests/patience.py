"""How long tests wait."""

PATIENCE_SEC = 600
"""For anything. A busy machine needs long for what an idle one does at once."""
POOL_LIMIT_SEC = 2400
"""The limit of a test on a stack, which may have to be patient several times."""
