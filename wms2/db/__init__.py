"""The record that people query, and the ledger of what was planned and produced, in PostgreSQL."""
