"""What admission must not forget: the operators' word on it, and the slots that rounds have.

Words that were said before are in the audit trail. Rounds that ran before had their slots of a size that only Temporal
knows.
"""

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

UPGRADE = (
    "CREATE TABLE admission_words (id INTEGER DEFAULT 1 NOT NULL, slot_limit BIGINT, idle_budget BIGINT, "
    "draining BOOLEAN DEFAULT false NOT NULL, said_by VARCHAR(200) NOT NULL, said_because TEXT, "
    "said_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, "
    "CONSTRAINT admission_words_pkey PRIMARY KEY (id), CONSTRAINT admission_words_one_row_check CHECK (id = 1))",
    "INSERT INTO admission_words (slot_limit, idle_budget, draining, said_by, said_because, said_at) SELECT "
    "(SELECT CAST(detail ->> 'limit' AS BIGINT) FROM audit_trail "
    "WHERE action = 'admission_set' AND detail -> 'limit' IS NOT NULL ORDER BY id DESC LIMIT 1), "
    "(SELECT CAST(detail ->> 'idle_budget' AS BIGINT) FROM audit_trail "
    "WHERE action = 'admission_set' AND detail -> 'idle_budget' IS NOT NULL ORDER BY id DESC LIMIT 1), "
    "coalesce((SELECT action = 'admission_drain' FROM audit_trail "
    "WHERE action IN ('admission_drain', 'admission_resume') ORDER BY id DESC LIMIT 1), false), "
    "actor, nullif(reason, ''), created_at FROM audit_trail "
    "WHERE action IN ('admission_set', 'admission_drain', 'admission_resume') ORDER BY id DESC LIMIT 1",
    "CREATE TABLE slots (request_no BIGINT NOT NULL, round INTEGER NOT NULL, host VARCHAR(255) NOT NULL, "
    "idle_jobs BIGINT, taken_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL, "
    "CONSTRAINT slots_pkey PRIMARY KEY (request_no), "
    "CONSTRAINT slots_request_no_fkey FOREIGN KEY(request_no) REFERENCES requests (request_no))",
    "INSERT INTO slots (request_no, round, host) SELECT rounds.request_no, rounds.number, rounds.submit_host "
    "FROM rounds JOIN requests ON requests.request_no = rounds.request_no "
    "WHERE rounds.status IN ('planned', 'active') AND rounds.submit_host IS NOT NULL "
    "AND requests.status IN ('planning', 'pilot_running', 'active', 'partial', 'stopping')",
)


def upgrade() -> None:
    for statement in UPGRADE:
        op.execute(statement)


def downgrade() -> None:
    op.execute("DROP TABLE slots")
    op.execute("DROP TABLE admission_words")
