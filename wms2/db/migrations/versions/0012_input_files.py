"""How many events were read of each input file."""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

UPGRADE = ("ALTER TABLE input_files ADD COLUMN read_events BIGINT",)
DOWNGRADE = ("ALTER TABLE input_files DROP COLUMN read_events",)


def upgrade() -> None:
    for statement in UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWNGRADE:
        op.execute(statement)
