"""Submit hosts, and apart from them what operators say of them."""

from sqlalchemy import String, false
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import Moment, Now, Table, Words


class SubmitHostRow(Table):
    """A host that is known. When it vanishes its row goes."""

    __tablename__ = "submit_hosts"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    schedd_name: Mapped[str] = mapped_column(String(255))
    submit_root: Mapped[Words]
    max_dagmans: Mapped[int]
    version: Mapped[str] = mapped_column(String(100))
    first_seen_at: Mapped[Now]
    last_seen_at: Mapped[Now]
    schedd_gone_at: Mapped[Moment | None]
    silence_told_at: Mapped[Moment | None]
    left_at: Mapped[Moment | None]


class HostWordRow(Table):
    """The operators' word on a host. It stays when the host vanishes, and holds when it returns."""

    __tablename__ = "host_words"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    disabled: Mapped[bool] = mapped_column(server_default=false())
    lost_at: Mapped[Moment | None]
    said_by: Mapped[str] = mapped_column(String(200))
    said_because: Mapped[Words | None]
    said_at: Mapped[Now]
