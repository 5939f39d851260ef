"""What requests run and make, straight from the servers: DAGs and outputs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from sqlalchemy.orm import Session

from wms2.db.dags import dag_history, list_dags, named_dag
from wms2.db.output_list import list_outputs, output_blocks
from wms2.db.requests import request_record
from wms2.door.inspection import page_of_nodes
from wms2.door.servers import Servers
from wms2.door.setbacks import problems_of
from wms2.door.undoing import outputs_to_undo
from wms2.errors import UserError
from wms2.models.dag import DAG, DagDetails
from wms2.models.nodes import NodeRow
from wms2.models.output import OutputStanding, OutputStatus
from wms2.models.output_list import ListedOutput, OutputDetails
from wms2.models.undo import UndoOrder
from wms2.temporal.launch import start_undo


class DirectWork(Servers):
    async def list_dags(self, request: str | None = None) -> list[DAG]:
        return await self.read(list_dags, request_name=request)

    async def dag_details(self, dag: str) -> DagDetails:
        return await self.read(_details, dag)

    async def nodes(self, dag: str, *, failed: bool = False) -> list[NodeRow]:
        found = await self.read(named_dag, dag)
        rows: list[NodeRow] = []
        offset: int | None = 0
        while offset is not None:
            page = await page_of_nodes(self, found, failed=failed, offset=offset)
            rows += page.nodes
            offset = page.next
        return rows

    async def list_outputs(
        self,
        request: str | None = None,
        statuses: Sequence[OutputStatus] = (),
        standings: Sequence[OutputStanding] = (),
    ) -> list[ListedOutput]:
        return await self.read(list_outputs, request, statuses=statuses, standings=standings)

    async def outputs_of(self, request: str) -> list[OutputDetails]:
        found = await self.read(_outputs, request)
        # What is recorded is told also where nobody knows more.
        with suppress(UserError):
            client = await self.temporal()
            problems = await asyncio.gather(*(problems_of(client, one) for one in found))
            return [
                one.model_copy(update={"problems": why}) for one, why in zip(found, problems, strict=True)
            ]
        return found

    async def outputs_to_undo(self, request: str, dataset: str | None = None) -> list[ListedOutput]:
        status = (await self.read(request_record, request)).status
        return outputs_to_undo(request, status, dataset, await self.read(list_outputs, request, dataset))

    async def undo(self, order: UndoOrder) -> None:
        await start_undo(await self.temporal(), order)


def _details(session: Session, name: str) -> DagDetails:
    found = named_dag(session, name)
    return DagDetails(dag=found, history=dag_history(session, found.intent.dag_id))


def _outputs(session: Session, request: str) -> list[OutputDetails]:
    return [
        OutputDetails(**dict(one), blocks_of_it=output_blocks(session, request, one.dataset))
        for one in list_outputs(session, request)
    ]
