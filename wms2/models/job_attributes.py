"""Attributes that a requestor adds to the jobs, and the names that are not theirs to set."""

import math
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from wms2.patterns import AttributeName

LONGEST_TEXT = 1000

# Lower case, as ClassAds ignore case. What HTCondor, DAGMan or WMS2 itself sets or trusts.
_RESERVED_NAMES = """
    allowedexecuteduration allowedjobduration hookkeyword noopjob noopjobexitcode noopjobexitsignal
    postargs postarguments postcmd postenv postenvironment preargs prearguments precmd preenv
    preenvironment timerremove
    args arguments autoclusterid bufferblocksize buffersize cmd concurrencylimits coresize currenthosts
    deferraltime desired_sites diskusage enteredcurrentstatus env environment err error executable
    executablesize exitbysignal exitcode exitsignal extdesired_sites false filesystemdomain getenv
    globaljobid holdreason holdreasoncode imagesize in input is isnt iwd kcoresize keepclaimidle killsig
    lastholdreason leavejobinqueue machinecount maxhosts maxjobretirementtime maxwalltimemins memoryusage
    minhosts my mytype niceuser notifyuser numjobstarts onexithold onexitremove osuser out output owner
    ownerattribute parent procid proportionalsetsizekb qdate rank releasereason removereason requirements
    residentsetsize rootdir scheduler schedulerid shouldtransferfiles startdate streamerr streamout
    submithost successcheckpointexitcode target targettype toolcmd true undefined undesired_sites universe
    user userlog wantcontainer wantdocker wantio wantremoteio wantremotesyscalls whentotransferoutput
"""
_RESERVED = frozenset(_RESERVED_NAMES.split())
_RESERVED_PREFIXES = (
    "acct", "accounting", "cluster", "cms_", "condor", "container", "cuda", "dag", "docker", "glidein",
    "grid", "hold", "job", "machineattr", "match", "periodic", "remote", "remove", "request", "should",
    "singularity", "submit", "transfer", "wms2_", "x509",
)  # fmt: skip


def _free_to_set(name: str) -> str:
    lower = name.lower()
    if lower in _RESERVED or lower.startswith(_RESERVED_PREFIXES):
        raise ValueError("expected a name that neither HTCondor nor WMS2 uses itself")
    return name


def _plain(value: Any) -> bool | int | float | str:
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, str) and len(value) <= LONGEST_TEXT and _harmless(value):
        return value
    raise ValueError(
        "expected true, false, a 64-bit number or at most 1000 printable ASCII characters "
        "without quotes, backslash, '$' and line breaks"
    )


def _harmless(text: str) -> bool:
    return all(" " <= character <= "~" and character not in "\"'`\\$" for character in text)


JobAttributeName = Annotated[AttributeName, AfterValidator(_free_to_set)]
JobAttributeValue = Annotated[bool | int | float | str, BeforeValidator(_plain)]
