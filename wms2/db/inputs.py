"""Inputs that requests want to have at a place: recorded before Rucio is asked, and until they are let go."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from wms2.core.placement import OK, STUCK, trouble
from wms2.db.tables import InputRuleRow, RequestRow
from wms2.models.input_rule import InputProgress, InputRule
from wms2.models.request import RequestStatus
from wms2.models.rule import Rule

FINAL = [status for status in RequestStatus if status.is_final]


def want_inputs(
    session: Session, request_name: str, names: Iterable[str], expression: str
) -> list[InputRule]:
    """Record what a request wants; again changes nothing. What it holds then, with the rules that are known."""
    rows = [{"request_name": request_name, "name": name, "rse_expression": expression} for name in names]
    known = [InputRuleRow.request_name, InputRuleRow.name]
    session.execute(insert(InputRuleRow).values(rows).on_conflict_do_nothing(index_elements=known))
    return held_inputs(session, request_name)


def held_inputs(session: Session, request_name: str) -> list[InputRule]:
    """What a request has wanted and not let go."""
    query = select(InputRuleRow).where(
        InputRuleRow.request_name == request_name, InputRuleRow.released_at.is_(None)
    )
    rows = session.scalars(query.order_by(InputRuleRow.name).execution_options(populate_existing=True))
    return [
        InputRule.model_validate({name: getattr(row, name) for name in InputRule.model_fields})
        for row in rows
    ]


def held_after_the_end(session: Session) -> list[str]:
    """The requests that have ended and hold inputs all the same."""
    query = (
        select(InputRuleRow.request_name)
        .join(RequestRow, RequestRow.request_name == InputRuleRow.request_name)
        .where(InputRuleRow.released_at.is_(None), RequestRow.status.in_(FINAL))
        .distinct()
    )
    return sorted(session.scalars(query))


def others_want(session: Session, held: InputRule) -> bool:
    """Whether another request holds the same at the same place."""
    query = select(InputRuleRow.id).where(
        InputRuleRow.name == held.name,
        InputRuleRow.rse_expression == held.rse_expression,
        InputRuleRow.request_name != held.request_name,
        InputRuleRow.released_at.is_(None),
    )
    return session.scalar(query.limit(1)) is not None


def record_look(session: Session, held: InputRule, rule: Rule) -> None:
    """How far Rucio is with it."""
    session.execute(
        update(InputRuleRow)
        .where(InputRuleRow.request_name == held.request_name, InputRuleRow.name == held.name)
        .values(
            rule_id=rule.id,
            state=rule.state,
            files=rule.files,
            files_there=rule.locks_ok,
            error=trouble([rule]),
            looked_at=func.now(),
        )
    )


def record_release(session: Session, held: InputRule) -> None:
    session.execute(
        update(InputRuleRow)
        .where(
            InputRuleRow.request_name == held.request_name,
            InputRuleRow.name == held.name,
            InputRuleRow.released_at.is_(None),
        )
        .values(released_at=func.now())
    )


def input_progress(session: Session, request_name: str) -> InputProgress | None:
    """How much is there; None for a request that has not wanted any."""
    query = select(InputRuleRow).where(InputRuleRow.request_name == request_name)
    rows = session.scalars(query.order_by(InputRuleRow.name).execution_options(populate_existing=True)).all()
    if not rows:
        return None
    return InputProgress(
        rse_expression=rows[0].rse_expression,
        rules=len(rows),
        rules_ok=sum(row.state == OK and row.files_there == row.files for row in rows),
        files=sum(row.files for row in rows),
        files_there=sum(row.files_there for row in rows),
        problem=next((row.error for row in rows if row.state == STUCK), ""),
        looked_at=min((row.looked_at for row in rows if row.looked_at), default=None),
        released=all(row.released_at for row in rows),
    )
