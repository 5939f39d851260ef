"""The submit host belongs to the round: nobody ever wrote it down for a DAG."""

from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("ALTER TABLE dags DROP COLUMN submit_host")


def downgrade() -> None:
    op.execute("ALTER TABLE dags ADD COLUMN submit_host VARCHAR(255)")
