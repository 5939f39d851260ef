"""Services that do not answer."""

from sqlalchemy import String
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import Now, Table


class SilenceRow(Table):
    """What is asked of a service in vain. The row goes when it is answered."""

    __tablename__ = "silences"

    asked: Mapped[str] = mapped_column(String(100), primary_key=True)
    since: Mapped[Now]
