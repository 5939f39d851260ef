"""The one-machine stack: Temporal, PostgreSQL, an HTCondor pool and stand-ins for the CMS services."""
