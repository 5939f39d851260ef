"""Blocks open, fill and close; datasets stand, are superseded or invalidated."""

from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

UPGRADE = (
    "ALTER TABLE requests DROP CONSTRAINT requests_cleanup_policy_check",
    "ALTER TABLE requests ADD CONSTRAINT requests_cleanup_policy_check "
    "CHECK (cleanup_policy IN ('keep_until_replaced', 'immediate_cleanup', 'grace_period'))",
    "ALTER TABLE output_files DROP CONSTRAINT output_files_status_check",
    "ALTER TABLE output_files ADD CONSTRAINT output_files_status_check "
    "CHECK (status IN ('pending', 'protected', 'registered', 'invalidated'))",
    "ALTER TABLE output_blocks ADD COLUMN number INTEGER",
    "UPDATE output_blocks SET number = numbered.place FROM (SELECT id, row_number() OVER "
    "(PARTITION BY output_dataset_id ORDER BY created_at, id) - 1 AS place FROM output_blocks) AS numbered "
    "WHERE numbered.id = output_blocks.id",
    "ALTER TABLE output_blocks ALTER COLUMN number SET NOT NULL",
    "ALTER TABLE output_blocks ADD COLUMN lumis BIGINT DEFAULT 0 NOT NULL",
    "ALTER TABLE output_blocks ADD COLUMN source_rse VARCHAR(255)",
    "ALTER TABLE output_blocks DROP COLUMN source_protected",
    "CREATE UNIQUE INDEX idx_output_blocks_number ON output_blocks (output_dataset_id, number)",
    "CREATE UNIQUE INDEX idx_output_blocks_open ON output_blocks (output_dataset_id, source_site) "
    "WHERE status = 'open'",
    "ALTER TABLE output_datasets DROP CONSTRAINT output_datasets_status_check",
    "ALTER TABLE output_datasets ADD CONSTRAINT output_datasets_status_check CHECK (status IN ('pending', "
    "'source_protected', 'dbs_registered', 'transfers_requested', 'transferring', 'transferred', 'source_released', "
    "'announced', 'invalidated', 'failed'))",
    "ALTER TABLE output_datasets ADD COLUMN standing VARCHAR(50) DEFAULT 'active' NOT NULL",
    "UPDATE output_datasets SET standing = 'invalidated' WHERE invalidated",
    "ALTER TABLE output_datasets ADD CONSTRAINT output_datasets_standing_check "
    "CHECK (standing IN ('active', 'superseded', 'invalidated'))",
    "ALTER TABLE output_datasets ADD COLUMN cleanup_at TIMESTAMP WITH TIME ZONE",
    "ALTER TABLE output_datasets DROP COLUMN invalidated",
    "CREATE INDEX idx_output_datasets_cleanup ON output_datasets (cleanup_at) WHERE cleanup_at IS NOT NULL",
)
DOWNGRADE = (
    "UPDATE requests SET cleanup_policy = 'keep_until_replaced' WHERE cleanup_policy = 'grace_period'",
    "ALTER TABLE requests DROP CONSTRAINT requests_cleanup_policy_check",
    "ALTER TABLE requests ADD CONSTRAINT requests_cleanup_policy_check "
    "CHECK (cleanup_policy IN ('keep_until_replaced', 'immediate_cleanup'))",
    "DROP INDEX idx_output_datasets_cleanup",
    "ALTER TABLE output_datasets ADD COLUMN invalidated BOOLEAN DEFAULT false NOT NULL",
    "UPDATE output_datasets SET invalidated = true WHERE standing = 'invalidated'",
    "ALTER TABLE output_datasets DROP COLUMN cleanup_at",
    "ALTER TABLE output_datasets DROP COLUMN standing",
    "DROP INDEX idx_output_blocks_open",
    "DROP INDEX idx_output_blocks_number",
    "ALTER TABLE output_blocks ADD COLUMN source_protected BOOLEAN DEFAULT false NOT NULL",
    "UPDATE output_blocks SET source_protected = true WHERE source_rule_id IS NOT NULL",
    "ALTER TABLE output_blocks DROP COLUMN source_rse",
    "ALTER TABLE output_blocks DROP COLUMN lumis",
    "ALTER TABLE output_blocks DROP COLUMN number",
    "UPDATE output_files SET status = 'pending' WHERE status = 'protected'",
    "ALTER TABLE output_files DROP CONSTRAINT output_files_status_check",
    "ALTER TABLE output_files ADD CONSTRAINT output_files_status_check "
    "CHECK (status IN ('pending', 'registered', 'invalidated'))",
)


def upgrade() -> None:
    for statement in UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWNGRADE:
        op.execute(statement)
