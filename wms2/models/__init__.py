"""Models that cross a boundary: what people write, what the database records, what the DAG files carry."""
