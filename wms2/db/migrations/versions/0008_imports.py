"""Requests of ReqMgr2, chains of requests, and the configurations they bring along."""

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

UPGRADE = (
    "CREATE TABLE imports (name VARCHAR(255) NOT NULL, digest VARCHAR(64) NOT NULL, "
    "requests JSONB DEFAULT '[]'::jsonb NOT NULL, problem TEXT DEFAULT '' NOT NULL, "
    "reported VARCHAR(50) DEFAULT '' NOT NULL, report_problem TEXT DEFAULT '' NOT NULL, "
    "created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, "
    "updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, CONSTRAINT imports_pkey PRIMARY KEY (name))",
    "CREATE TABLE request_links (request_name VARCHAR(255) NOT NULL, parent_name VARCHAR(255) NOT NULL, "
    "CONSTRAINT request_links_pkey PRIMARY KEY (request_name), "
    "CONSTRAINT request_links_request_name_fkey FOREIGN KEY (request_name) REFERENCES requests (request_name), "
    "CONSTRAINT request_links_parent_name_fkey FOREIGN KEY (parent_name) REFERENCES requests (request_name))",
    "CREATE INDEX idx_request_links_parent ON request_links (parent_name)",
    "CREATE TABLE parameter_sets (digest VARCHAR(64) NOT NULL, content BYTEA NOT NULL, "
    "created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, "
    "CONSTRAINT parameter_sets_pkey PRIMARY KEY (digest))",
)
DOWNGRADE = ("DROP TABLE parameter_sets", "DROP TABLE request_links", "DROP TABLE imports")


def upgrade() -> None:
    for statement in UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWNGRADE:
        op.execute(statement)
