"""People are told what happens: an outbox of notices, and the digests in which they are sent."""

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

NOTICES = """
CREATE TABLE notice_digests (
    id UUID NOT NULL,
    address VARCHAR(250) NOT NULL,
    subject TEXT NOT NULL,
    body TEXT NOT NULL,
    state VARCHAR(20) DEFAULT 'sending' NOT NULL,
    tries INTEGER DEFAULT 0 NOT NULL,
    error TEXT DEFAULT '' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    due_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    sent_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT notice_digests_pkey PRIMARY KEY (id),
    CONSTRAINT notice_digests_state_check CHECK (state IN ('sending', 'sent', 'given_up'))
);
CREATE UNIQUE INDEX idx_notice_digests_open ON notice_digests (address) WHERE state = 'sending';
CREATE TABLE notices (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    key TEXT NOT NULL,
    audience VARCHAR(20) NOT NULL,
    address VARCHAR(250) NOT NULL,
    reason VARCHAR(50) NOT NULL,
    about VARCHAR(255) NOT NULL,
    words TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    digest_id UUID,
    CONSTRAINT notices_pkey PRIMARY KEY (id),
    CONSTRAINT notices_key_address_key UNIQUE (key, address),
    CONSTRAINT notices_digest_id_fkey FOREIGN KEY(digest_id) REFERENCES notice_digests (id),
    CONSTRAINT notices_audience_check CHECK (audience IN ('operators', 'requestor', 'site')),
    CONSTRAINT notices_reason_check CHECK (reason IN (
        'held', 'failures', 'completed', 'failed', 'aborted', 'replaced', 'long_status', 'lost_host',
        'lost_workflow', 'alert', 'ban', 'ban_for_all', 'ban_ended'
    ))
);
CREATE INDEX idx_notices_waiting ON notices (address) WHERE digest_id IS NULL;
CREATE INDEX idx_notices_digest ON notices (digest_id);
"""


def upgrade() -> None:
    op.execute(NOTICES)


def downgrade() -> None:
    op.drop_table("notices")
    op.drop_table("notice_digests")
