"""Documents of ReqMgr2, the links between requests, and the configurations that requests bring along."""

from sqlalchemy import ForeignKey, Index, LargeBinary, String, text
from sqlalchemy.orm import Mapped, mapped_column

from wms2.db.columns import JsonList, Now, Table, Words


class ImportRow(Table):
    """A document that was looked at. One with requests is taken on, for good; another one has a problem."""

    __tablename__ = "imports"

    name: Mapped[str] = mapped_column(String(255), primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    requests: Mapped[JsonList]
    problem: Mapped[Words] = mapped_column(server_default=text("''"))
    reported: Mapped[str] = mapped_column(String(50), server_default=text("''"))
    report_problem: Mapped[Words] = mapped_column(server_default=text("''"))
    created_at: Mapped[Now]
    updated_at: Mapped[Now]
    settled: Mapped[str] = mapped_column(String(50), server_default=text("''"))


class LinkRow(Table):
    """A request that reads what another one makes."""

    __tablename__ = "request_links"

    request_name: Mapped[str] = mapped_column(ForeignKey("requests.request_name"), primary_key=True)
    parent_name: Mapped[str] = mapped_column(ForeignKey("requests.request_name"))

    __table_args__ = (Index("idx_request_links_parent", "parent_name"),)


class ParameterSetRow(Table):
    """A configuration of cmsRun, by the digest of its bytes: it never changes."""

    __tablename__ = "parameter_sets"

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[Now]
