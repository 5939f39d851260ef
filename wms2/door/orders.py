"""What can be known to be wrong with an order before the request's workflow is asked."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from wms2.core.lifecycle import objection
from wms2.core.remedies import drop_mistakes
from wms2.core.sizing import size_mistakes
from wms2.dagman.policy_file import checked_policy, policy_of, with_rules
from wms2.db.drops import check_files
from wms2.db.verdicts import judged_request
from wms2.db.versions import planned_clone
from wms2.errors import Contradiction, UserError
from wms2.models.actions import Action
from wms2.models.messages import DropAction, JudgeAction, OperatorAction, ReleaseAction, SizeAction
from wms2.models.request import RequestRecord


def check_order(session: Session, record: RequestRecord, order: OperatorAction, most_versions: int) -> None:
    """Raises a UserError with all that is wrong. Whether it fits the moment, only the workflow knows."""
    name = record.request.request_name
    match order:
        case ReleaseAction():
            _check_files(session, name, order.changes.exclude_files)
        case DropAction():
            mistakes = drop_mistakes(order, simulation=record.request.is_simulation)
            _refuse(name, mistakes, "`wms2 request drop --help` shows how")
            _check_files(session, name, order.files)
        case JudgeAction():
            policy = with_rules(policy_of(judged_request(session, name)), [order.rule])
            checked_policy(f"with this rule the policy of {name}", policy)
        case SizeAction():
            mistakes = size_mistakes(order, record.request)
            _refuse(name, mistakes, "`wms2 request size --help` shows what can be given")
        case OperatorAction(action=Action.RESTART):
            if why := objection(Action.RESTART, record.status):
                raise Contradiction(f"{name}: {why}")
            planned_clone(session, name, most_versions)


def _check_files(session: Session, name: str, files: Sequence[str]) -> None:
    if files:
        check_files(session, name, files)


def _refuse(name: str, mistakes: Sequence[str], advice: str) -> None:
    if mistakes:
        raise UserError(f"{name}: {'; '.join(mistakes)}; {advice}")
