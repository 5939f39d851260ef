"""What the jobs run. WMS2 hands it to the sandbox as it is and looks at the steps' names and types only."""

import json
import re
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from wms2.patterns import Word

PAYLOAD_BYTES = 1_000_000
MOST_STEPS = 100
NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""As JSON writes it; after an uneven number of backslashes it is none."""


class StepType(StrEnum):
    DEMO = "demo"
    CMSRUN = "cmsRun"


class _Open(BaseModel):
    """Keeps whatever else was written beside the fields it knows."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, JsonValue] = Field(init=False)


class PayloadStep(_Open):
    name: Word = Field(description="the step's name, unique in the request")
    type: StepType = Field(description="what runs the step: demo or cmsRun")


class PayloadMerge(_Open):
    type: StepType = Field(StepType.DEMO, description="what merges the outputs: demo or cmsRun")


class PayloadConfig(_Open):
    steps: tuple[PayloadStep, ...] = Field(
        min_length=1, max_length=MOST_STEPS, description="the steps of a job, in order"
    )
    merge: PayloadMerge | None = Field(
        None, description="how outputs are merged; what it leaves out is as in the last step"
    )


def _checked(value: Any) -> dict[str, JsonValue]:
    payload = PayloadConfig.model_validate(value).model_dump(mode="json", exclude_unset=True)
    text = json.dumps(payload)
    if len(text) > PAYLOAD_BYTES:
        raise ValueError(f"expected at most {PAYLOAD_BYTES} bytes of JSON and not {len(text)}")
    if NUL.search(text):
        raise ValueError("expected text without the character NUL, which no database keeps")
    return payload


PayloadDocument = Annotated[dict[str, JsonValue], BeforeValidator(_checked)]
