"""What ReqMgr2 has, apart from what it need not be told again; and services that do not answer."""

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

UPGRADE = (
    "ALTER TABLE imports ADD COLUMN settled VARCHAR(50) DEFAULT '' NOT NULL",
    "UPDATE imports SET settled = reported WHERE report_problem = ''",
    # They were written down as told, and were not.
    "UPDATE imports SET reported = '' WHERE report_problem <> ''",
    "CREATE TABLE silences (asked VARCHAR(100) NOT NULL, "
    "since TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, CONSTRAINT silences_pkey PRIMARY KEY (asked))",
)
DOWNGRADE = (
    "DROP TABLE silences",
    "UPDATE imports SET reported = settled",
    "ALTER TABLE imports DROP COLUMN settled",
)


def upgrade() -> None:
    for statement in UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWNGRADE:
        op.execute(statement)
