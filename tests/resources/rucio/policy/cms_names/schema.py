"""Datasets, blocks with a '#', LFNs, and RSEs in mixed case. Rucio takes the rest from its generic schema."""

NAME = {"type": "string", "maxLength": 500, "pattern": r"^/[A-Za-z0-9][A-Za-z0-9/\.\-_+=#]*$"}
RSE = {"type": "string", "pattern": r"^T[0-3]_[A-Z]{2}_[A-Za-z0-9_]+$"}
DEFAULT_RSE_ATTRIBUTE = {"type": "string", "pattern": r"([A-Za-z0-9]+([_-][A-Za-z0-9]+)*)"}
RSE_ATTRIBUTE = {"type": "string", "pattern": r"([A-Za-z0-9\._-]+[=<>][A-Za-z0-9_-]+)"}
SCOPE_NAME_REGEXP = "/([^/]*)/?(/.*)"
SCHEMAS = {"name": NAME, "rse": RSE}
