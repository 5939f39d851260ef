"""The base of all models, and the numbers they hold."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

LARGEST_INTEGER = 2**63 - 1
# One less, because PostgreSQL keeps the end of a range exclusive and that end must fit 64 bits as well.
LARGEST_EVENT = LARGEST_INTEGER - 1
LARGEST_LUMI = 2**32 - 1


class Model(BaseModel):
    """Never changes once made, and refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


# Strict: a YAML `true` is no 1, and a quoted "5" is no 5.
Flag = Annotated[bool, Field(strict=True)]
Count = Annotated[int, Field(strict=True, ge=0, le=LARGEST_INTEGER)]
PositiveCount = Annotated[int, Field(strict=True, ge=1, le=LARGEST_INTEGER)]
EventNumber = Annotated[int, Field(strict=True, ge=1, le=LARGEST_EVENT)]
RunNumber = Annotated[int, Field(strict=True, ge=1, le=LARGEST_LUMI)]
LumiNumber = RunNumber
PositiveNumber = Annotated[float, Field(strict=True, gt=0, le=1e12, allow_inf_nan=False)]
Fraction = Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Adler32 = Annotated[str, Field(pattern=r"^[0-9a-f]{8}$")]


class Lumi(Model):
    """One luminosity section as a file holds it; how many events is not always known."""

    run: RunNumber
    lumi: LumiNumber
    events: Count | None = None
