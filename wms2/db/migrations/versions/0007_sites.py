"""What CRIC says of sites beside the operators' word, rules that bring inputs near, and two more reasons to tell."""

from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

REASONS = (
    "'held', 'failures', 'completed', 'failed', 'aborted', 'replaced', 'long_status', 'lost_host', "
    "'lost_workflow', 'alert', 'ban', 'ban_for_all', 'ban_ended'"
)
NEW_REASONS = "'silent_service', 'credential'"

UPGRADE = (
    "ALTER TABLE sites ADD COLUMN status_by VARCHAR(200)",
    "ALTER TABLE sites ADD COLUMN status_reason TEXT",
    "ALTER TABLE sites ADD COLUMN status_at TIMESTAMP WITH TIME ZONE",
    "ALTER TABLE sites ADD COLUMN rses JSONB DEFAULT '[]'::jsonb NOT NULL",
    "ALTER TABLE sites ADD COLUMN cric_state VARCHAR(50)",
    "ALTER TABLE sites ADD COLUMN cric_seen_at TIMESTAMP WITH TIME ZONE",
    "ALTER TABLE sites ADD COLUMN cric_gone_at TIMESTAMP WITH TIME ZONE",
    """CREATE TABLE input_rules (
        id BIGINT GENERATED ALWAYS AS IDENTITY,
        request_name VARCHAR(255) NOT NULL,
        name VARCHAR(500) NOT NULL,
        rse_expression VARCHAR(200) NOT NULL,
        rule_id VARCHAR(32),
        state VARCHAR(50) DEFAULT '' NOT NULL,
        files_there BIGINT DEFAULT 0 NOT NULL,
        files BIGINT DEFAULT 0 NOT NULL,
        error TEXT DEFAULT '' NOT NULL,
        looked_at TIMESTAMP WITH TIME ZONE,
        created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
        released_at TIMESTAMP WITH TIME ZONE,
        CONSTRAINT input_rules_pkey PRIMARY KEY (id),
        CONSTRAINT input_rules_request_name_name_key UNIQUE (request_name, name),
        CONSTRAINT input_rules_request_name_fkey FOREIGN KEY(request_name) REFERENCES requests (request_name)
    )""",
    "CREATE INDEX idx_input_rules_held ON input_rules (name, rse_expression) WHERE released_at IS NULL",
    "ALTER TABLE notices DROP CONSTRAINT notices_reason_check",
    f"ALTER TABLE notices ADD CONSTRAINT notices_reason_check CHECK (reason IN ({REASONS}, {NEW_REASONS}))",
)
DOWNGRADE = (
    "DELETE FROM notices WHERE reason IN ('silent_service', 'credential')",
    "ALTER TABLE notices DROP CONSTRAINT notices_reason_check",
    f"ALTER TABLE notices ADD CONSTRAINT notices_reason_check CHECK (reason IN ({REASONS}))",
    "DROP TABLE input_rules",
    "ALTER TABLE sites DROP COLUMN cric_gone_at",
    "ALTER TABLE sites DROP COLUMN cric_seen_at",
    "ALTER TABLE sites DROP COLUMN cric_state",
    "ALTER TABLE sites DROP COLUMN rses",
    "ALTER TABLE sites DROP COLUMN status_at",
    "ALTER TABLE sites DROP COLUMN status_reason",
    "ALTER TABLE sites DROP COLUMN status_by",
)


def upgrade() -> None:
    for statement in UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWNGRADE:
        op.execute(statement)
