"""How alembic runs the migrations: on the connection that `wms2.db.migrate` opened, inside its transaction."""

from alembic import context

from wms2.db.columns import Table
from wms2.db.tables import RequestRow

# Importing any table imports them all, and only then does the metadata know them.
assert RequestRow.metadata is Table.metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=Table.metadata)
context.run_migrations()
