"""Rules that people made of their verdicts: the audit trail keeps them, with who judged and why."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from wms2.core.remedies import with_rule
from wms2.db.requests import request_record
from wms2.db.tables import AuditRow
from wms2.models.actions import Action
from wms2.models.policy import FailureRule
from wms2.models.request import Request


def verdicts_of(session: Session, request_name: str) -> tuple[FailureRule, ...]:
    """The newest of each name, in the order in which they were given."""
    query = select(AuditRow.detail).where(
        AuditRow.request_name == request_name, AuditRow.action == Action.JUDGE
    )
    rules: tuple[FailureRule, ...] = ()
    for detail in session.scalars(query.order_by(AuditRow.id)):
        rules = with_rule(rules, FailureRule.model_validate(detail["rule"]))
    return rules


def judged_request(session: Session, request_name: str) -> Request:
    """The request as its rounds are run: what was judged is among its own rules."""
    request = request_record(session, request_name).request
    rules = request.failure_rules
    for rule in verdicts_of(session, request_name):
        rules = with_rule(rules, rule)
    return request.model_copy(update={"failure_rules": rules})
