"""Kinds of columns that the tables share."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any
from uuid import UUID

from sqlalchemy import BigInteger, CheckConstraint, DateTime, Identity, MetaData, Text, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import UUID as PostgresUuid
from sqlalchemy.orm import DeclarativeBase, mapped_column

JsonObject = Annotated[dict[str, Any], mapped_column(JSONB, server_default=text("'{}'::jsonb"))]
JsonList = Annotated[list[Any], mapped_column(JSONB, server_default=text("'[]'::jsonb"))]
RandomId = Annotated[
    UUID, mapped_column(PostgresUuid, primary_key=True, server_default=text("gen_random_uuid()"))
]
SerialId = Annotated[int, mapped_column(BigInteger, Identity(always=True), primary_key=True)]
Number = Annotated[int, mapped_column(BigInteger)]
Counter = Annotated[int, mapped_column(BigInteger, server_default=text("0"))]
Moment = Annotated[datetime, mapped_column(DateTime(timezone=True))]
Now = Annotated[datetime, mapped_column(DateTime(timezone=True), server_default=func.now())]
Words = Annotated[str, mapped_column(Text)]
No = Annotated[bool, mapped_column(server_default=text("false"))]


class Table(DeclarativeBase):
    metadata = MetaData(
        naming_convention={
            "pk": "%(table_name)s_pkey",
            "uq": "%(table_name)s_%(column_0_N_name)s_key",
            "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
            "ck": "%(table_name)s_%(constraint_name)s_check",
        }
    )


def one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    """The column holds one of the enum's values."""
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)
