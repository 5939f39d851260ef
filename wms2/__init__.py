"""WMS2: requests become HTCondor DAGs, kept alive by Temporal workflows."""
