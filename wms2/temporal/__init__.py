"""What all workflows, activities and clients share about Temporal."""
