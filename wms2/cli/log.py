"""The log of a process that runs on its own: a worker, the REST service, the metrics."""

from __future__ import annotations

import logging
import sys
from typing import Annotated, Literal

import typer
from sqlalchemy.exc import OperationalError
from temporalio.exceptions import ApplicationError

from wms2.config import Settings
from wms2.errors import Refused, Unavailable, UserError
from wms2.temporal.logs import JsonFormatter, PlainFormatter, without_details_in_messages

LogFormat = Literal["text", "json"]
LogFormatOption = Annotated[
    LogFormat | None,
    typer.Option(
        help="How the log on stderr is written: text for people, json for programs, an object a line.",
        show_default="WMS2_LOG_FORMAT, or text",
    ),
]


def log_everything(settings: Settings, log_format: LogFormat | None = None) -> None:
    """Write the log of this process on stderr, as it was asked for or configured."""
    chosen = log_format or settings.log_format
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        JsonFormatter(settings.secrets) if chosen == "json" else PlainFormatter(settings.secrets)
    )
    logging.basicConfig(handlers=[handler], level=logging.INFO, force=True)
    if chosen == "json":
        without_details_in_messages()
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("temporalio.activity").addFilter(in_one_line)


def in_one_line(record: logging.LogRecord) -> bool:
    """Somebody else is away or says no, or a person made a mistake: the sentence says it, no stack trace tells more."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, (OperationalError, Unavailable, Refused, UserError, ApplicationError)):
        record.msg, record.args = f"{record.getMessage()}: {str(error).splitlines()[0]}", ()
        record.exc_info = None
    return True
