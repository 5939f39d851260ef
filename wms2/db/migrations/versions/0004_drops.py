"""Requests keep how many of their events people decided to do without."""

from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE workflows ADD COLUMN dropped_events BIGINT DEFAULT 0 NOT NULL")


def downgrade() -> None:
    op.execute("ALTER TABLE workflows DROP COLUMN dropped_events")
