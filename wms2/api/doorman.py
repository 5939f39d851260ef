"""Everybody who comes in says who they are first: the caller of each call, before anything else of it is read."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends
from starlette.requests import Request as Call
from starlette.types import ASGIApp, Receive, Scope, Send

from wms2.api.callers import Caller, Doorkeeper, NotAllowed, NotKnown
from wms2.api.config import ApiConfig, Role
from wms2.api.limits import Rate
from wms2.api.problems import answer_to

OPEN = frozenset({"/api/v1/health"})


class Doorman:
    """Lets nobody in who is not known, but to those few addresses that are open."""

    def __init__(self, app: ASGIApp, keeper: Doorkeeper, config: ApiConfig) -> None:
        self._app = app
        self._keeper = keeper
        self._rate = Rate(config.calls_per_min)
        self._strangers = Rate(config.strangers_per_min)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        call = Call(scope, receive)
        try:
            if scope["path"] not in OPEN:
                call.state.caller = await self._let_in(call)
        except Exception as error:
            await answer_to(call, error)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    async def _let_in(self, call: Call) -> Caller:
        try:
            caller = await self._keeper.caller(call)
        except (NotKnown, NotAllowed):
            self._strangers.take(call.client.host if call.client else "")
            raise
        self._rate.take(caller.identity)
        return caller


class Needs:
    """The role that a route needs. Each route has one, and the OpenAPI document tells it.

    It waits for nothing; but a plain function would be sent through a thread, and cost each call some time.
    """

    def __init__(self, role: Role) -> None:
        self.role = role

    async def __call__(self, call: Call) -> Caller:
        caller: Caller = call.state.caller
        if caller.role.rank < self.role.rank:
            raise NotAllowed(f"{caller.identity} has the role {caller.role} here, and this needs {self.role}")
        return caller


Requestor = Annotated[Caller, Depends(Needs(Role.REQUESTOR))]
Operator = Annotated[Caller, Depends(Needs(Role.OPERATOR))]
