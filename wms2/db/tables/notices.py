"""The outbox: what people are to be told, and the digests in which they are."""

from uuid import UUID

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import UUID as PostgresUuid
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import Moment, Now, SerialId, Table, Words, one_of
from wms2.models.notice import Audience, DigestState, Reason


class DigestRow(Table):
    """A message as it will be sent, again and again the same; of an address one at a time."""

    __tablename__ = "notice_digests"

    id: Mapped[UUID] = mapped_column(PostgresUuid, primary_key=True)
    address: Mapped[str] = mapped_column(String(250))
    subject: Mapped[Words]
    body: Mapped[Words]
    state: Mapped[str] = mapped_column(String(20), server_default=text("'sending'"))
    tries: Mapped[int] = mapped_column(server_default=text("0"))
    error: Mapped[Words] = mapped_column(server_default=text("''"))
    created_at: Mapped[Now]
    due_at: Mapped[Now]
    sent_at: Mapped[Moment | None]

    __table_args__ = (
        one_of("state", DigestState),
        Index("idx_notice_digests_open", "address", unique=True, postgresql_where=text("state = 'sending'")),
    )


class NoticeRow(Table):
    """Something that happened, for one address; it waits until it is in a digest."""

    __tablename__ = "notices"

    id: Mapped[SerialId]
    key: Mapped[Words]
    audience: Mapped[str] = mapped_column(String(20))
    address: Mapped[str] = mapped_column(String(250))
    reason: Mapped[str] = mapped_column(String(50))
    about: Mapped[str] = mapped_column(String(255))
    words: Mapped[Words]
    created_at: Mapped[Now]
    digest_id: Mapped[UUID | None] = mapped_column(ForeignKey("notice_digests.id"))

    __table_args__ = (
        one_of("audience", Audience),
        one_of("reason", Reason),
        UniqueConstraint("key", "address"),
        Index("idx_notices_waiting", "address", postgresql_where=text("digest_id IS NULL")),
        Index("idx_notices_digest", "digest_id"),
    )
