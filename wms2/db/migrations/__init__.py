"""Migrations, applied by `wms2.db.migrate`."""
