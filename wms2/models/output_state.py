"""The state of an output dataset's workflow. It travels through continue-as-new."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from wms2.models.messages import OutputOrder


class OutputState(BaseModel):
    """An order, and how far it is: whoever starts the workflow sends the order alone.

    Fields are only ever added, with a default.
    """

    model_config = ConfigDict(validate_assignment=True)

    request: str
    dataset: str
    version: int = 1
    news: bool = True
    """There may be files to register. True at the start: what was credited before tells nobody."""
    finishing: bool = False
    frozen: bool = False
    registered: int = 0
    """Files that this workflow registered."""
    problem: str = ""
    """Why the latest try failed; empty when it did not."""

    @property
    def order(self) -> OutputOrder:
        return OutputOrder(request=self.request, dataset=self.dataset)
