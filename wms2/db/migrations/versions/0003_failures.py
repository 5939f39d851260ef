"""What failed is kept: the nodes of each DAG that gave up, and the input files that could not be read."""

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

FAILURES = """
CREATE TABLE node_failures (
    dag_id UUID NOT NULL,
    work_unit INTEGER NOT NULL,
    node VARCHAR(50) NOT NULL,
    cluster BIGINT,
    attempts INTEGER NOT NULL,
    category VARCHAR(50) NOT NULL,
    exit_code INTEGER,
    site VARCHAR(100),
    rule VARCHAR(200) NOT NULL,
    confidence VARCHAR(20) NOT NULL,
    message TEXT NOT NULL,
    bad_input_files JSONB DEFAULT '[]'::jsonb NOT NULL,
    log_tail TEXT NOT NULL,
    CONSTRAINT node_failures_pkey PRIMARY KEY (dag_id, work_unit, node),
    CONSTRAINT node_failures_dag_id_fkey FOREIGN KEY(dag_id) REFERENCES dags (id)
);
CREATE TABLE file_failures (
    request_no BIGINT NOT NULL,
    work_unit INTEGER NOT NULL,
    node VARCHAR(50) NOT NULL,
    cluster BIGINT NOT NULL,
    lfn VARCHAR(500) NOT NULL,
    site VARCHAR(100),
    category VARCHAR(50) NOT NULL,
    exit_code INTEGER,
    CONSTRAINT file_failures_pkey PRIMARY KEY (request_no, work_unit, node, cluster, lfn),
    CONSTRAINT file_failures_request_no_work_unit_fkey
        FOREIGN KEY(request_no, work_unit) REFERENCES work_units (request_no, number)
);
CREATE INDEX idx_file_failures_lfn ON file_failures (request_no, lfn);
ALTER TABLE dags ADD COLUMN failures JSONB;
ALTER TABLE rounds ADD COLUMN problems JSONB DEFAULT '[]'::jsonb NOT NULL;
"""


def upgrade() -> None:
    op.execute(FAILURES)


def downgrade() -> None:
    op.execute("ALTER TABLE rounds DROP COLUMN problems; ALTER TABLE dags DROP COLUMN failures")
    op.drop_table("file_failures")
    op.drop_table("node_failures")
