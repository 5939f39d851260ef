"""How many events were read of each input file, and in which work unit it was attempted in vain."""

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

UPGRADE = (
    "ALTER TABLE input_files ADD COLUMN read_events BIGINT, ADD COLUMN attempted_in INTEGER",
    "UPDATE input_files SET attempted_in = work_unit WHERE state = 'attempted'",
    "ALTER TABLE input_files ADD CONSTRAINT input_files_attempted_in_check "
    "CHECK (state <> 'attempted' OR attempted_in IS NOT NULL)",
)
DOWNGRADE = ("ALTER TABLE input_files DROP COLUMN read_events, DROP COLUMN attempted_in",)


def upgrade() -> None:
    for statement in UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWNGRADE:
        op.execute(statement)
