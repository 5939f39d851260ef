"""The REST service: a thin door. It reads the database and Temporal, and acts through workflows alone."""
