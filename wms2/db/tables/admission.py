"""What admission must not forget: the operators' word on it, and the slots that rounds have."""

from sqlalchemy import CheckConstraint, ForeignKey, String, text
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import No, Now, Number, Table, Words


class AdmissionWordRow(Table):
    """The operators' word on admission, in one row. What nobody decided has no value."""

    __tablename__ = "admission_words"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False, server_default=text("1"))
    slot_limit: Mapped[Number | None]
    idle_budget: Mapped[Number | None]
    draining: Mapped[No]
    said_by: Mapped[str] = mapped_column(String(200))
    said_because: Mapped[Words | None]
    said_at: Mapped[Now]

    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)


class SlotRow(Table):
    """The slot that a request has: written before it is told of it, gone before it is given back."""

    __tablename__ = "slots"

    request_no: Mapped[Number] = mapped_column(
        ForeignKey("requests.request_no"), primary_key=True, autoincrement=False
    )
    round: Mapped[int]
    host: Mapped[str] = mapped_column(String(255))
    idle_jobs: Mapped[Number | None]
    taken_at: Mapped[Now]
