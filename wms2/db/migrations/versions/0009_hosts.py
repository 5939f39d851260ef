"""Submit hosts as their workers announce them, and apart from that the operators' word on them."""

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

UPGRADE = (
    # Nothing was ever written to it.
    "DROP TABLE submit_hosts",
    "CREATE TABLE submit_hosts (name VARCHAR(255) NOT NULL, schedd_name VARCHAR(255) NOT NULL, "
    "submit_root TEXT NOT NULL, max_dagmans INTEGER NOT NULL, version VARCHAR(100) NOT NULL, "
    "first_seen_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, "
    "last_seen_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, schedd_gone_at TIMESTAMP WITH TIME ZONE, "
    "silence_told_at TIMESTAMP WITH TIME ZONE, CONSTRAINT submit_hosts_pkey PRIMARY KEY (name))",
    "CREATE TABLE host_words (name VARCHAR(255) NOT NULL, disabled BOOLEAN DEFAULT false NOT NULL, "
    "lost_at TIMESTAMP WITH TIME ZONE, said_by VARCHAR(200) NOT NULL, said_because TEXT, "
    "said_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, CONSTRAINT host_words_pkey PRIMARY KEY (name))",
)
DOWNGRADE = (
    "DROP TABLE host_words",
    "DROP TABLE submit_hosts",
    "CREATE TABLE submit_hosts (name VARCHAR(255) NOT NULL, schedd_name VARCHAR(255) NOT NULL, "
    "submit_root TEXT NOT NULL, max_dagmans INTEGER NOT NULL, "
    "status VARCHAR(50) DEFAULT 'enabled' NOT NULL, last_seen_at TIMESTAMP WITH TIME ZONE, "
    "CONSTRAINT submit_hosts_pkey PRIMARY KEY (name), "
    "CONSTRAINT submit_hosts_status_check CHECK (status IN ('enabled', 'draining', 'lost')))",
)


def upgrade() -> None:
    for statement in UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWNGRADE:
        op.execute(statement)
