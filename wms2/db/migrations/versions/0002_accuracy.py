"""Rounds keep what was predicted of their jobs, and what was measured."""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE rounds ADD COLUMN predicted JSONB, ADD COLUMN measured JSONB")


def downgrade() -> None:
    op.execute("ALTER TABLE rounds DROP COLUMN predicted, DROP COLUMN measured")
