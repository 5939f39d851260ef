"""Rules that bring the inputs of requests near."""

from sqlalchemy import ForeignKey, Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import Counter, Moment, Now, SerialId, Table, Words


class InputRuleRow(Table):
    """What a request wants to have at a place, a dataset or a block of it, from before it is asked of Rucio.

    Requests that want the same at the same place share the rule; it goes when none of them holds it.
    """

    __tablename__ = "input_rules"

    id: Mapped[SerialId]
    request_name: Mapped[str] = mapped_column(ForeignKey("requests.request_name"))
    name: Mapped[str] = mapped_column(String(500))
    rse_expression: Mapped[str] = mapped_column(String(200))
    rule_id: Mapped[str | None] = mapped_column(String(32))
    state: Mapped[str] = mapped_column(String(50), server_default=text("''"))
    files_there: Mapped[Counter]
    files: Mapped[Counter]
    error: Mapped[Words] = mapped_column(server_default=text("''"))
    looked_at: Mapped[Moment | None]
    created_at: Mapped[Now]
    released_at: Mapped[Moment | None]

    __table_args__ = (
        UniqueConstraint("request_name", "name"),
        Index("idx_input_rules_held", "name", "rse_expression", postgresql_where=text("released_at IS NULL")),
    )
