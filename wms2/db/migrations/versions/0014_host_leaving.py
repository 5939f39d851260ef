"""A worker that is stopped says so: nothing more is lent on its host."""

from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE submit_hosts ADD COLUMN left_at TIMESTAMP WITH TIME ZONE")


def downgrade() -> None:
    op.execute("ALTER TABLE submit_hosts DROP COLUMN left_at")
