"""Strict patterns for what comes from outside.

Every name that ends in a submit file, a DAG file, a path or a command line is matched against one of these
first. None of them admits white space, quotes, `$`, `;`, a folder named `..` or a leading `-`; only a
certificate's subject may hold blanks, and it goes nowhere but into the database.
"""

import re
from typing import Annotated

from pydantic import AfterValidator

REQUEST_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{2,199}")
SITE_NAME = re.compile(r"T[0-3]_[A-Z]{2}_[A-Za-z0-9]+(?:_[A-Za-z0-9]+)*")
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,199}")
DATASET = re.compile(
    r"/[A-Za-z0-9][A-Za-z0-9_.-]{0,149}/[A-Za-z0-9][A-Za-z0-9_.-]{0,199}/[A-Z0-9][A-Z0-9-]{0,49}"
)
OUTPUT_DATASET = re.compile(
    r"/[A-Za-z0-9][A-Za-z0-9_.-]{0,149}"
    r"/[A-Za-z][A-Za-z0-9_]{0,79}(?:-[A-Za-z0-9_]{1,100}){1,3}-v[1-9][0-9]{0,5}/[A-Z0-9][A-Z0-9-]{0,49}"
)
BLOCK = re.compile(DATASET.pattern + r"#[A-Za-z0-9][A-Za-z0-9-]{0,99}")
PRIMARY_DATASET = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,149}")
ERA = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,79}")
PROCESSING_STRING = re.compile(r"[A-Za-z0-9_]{1,100}")
TIER = re.compile(r"[A-Z0-9][A-Z0-9-]{0,49}")
RUN = re.compile(r"[1-9][0-9]{0,9}")
LFN = re.compile(r"/store(?:/[A-Za-z0-9_+=][A-Za-z0-9_.+=-]*)+")
LFN_BASE = LFN
CMSSW_VERSION = re.compile(r"CMSSW_[0-9]+(?:_[0-9]+){2}(?:_[A-Za-z0-9]+)*")
SCRAM_ARCH = re.compile(r"(?:slc|el|cc|cs)[0-9]+_[a-z0-9]+_gcc[0-9]+")
GLOBAL_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,199}")
ATTRIBUTE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
DISTINGUISHED_NAME = re.compile(
    r"(?:/[A-Za-z0-9.]+=[^/\"\\$`\x00-\x1f\x7f]+(?:/[^/=\"\\$`\x00-\x1f\x7f]+)*)+"
)
RSE_EXPRESSION = re.compile(r"[A-Za-z0-9(*][A-Za-z0-9_=<>|&\\()*.-]{0,199}")
RSE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,199}")
DAG_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,299}")
HOST_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,200}")
GPU_VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}")
MAIL_ADDRESS = re.compile(
    r"[A-Za-z0-9_+](?:[A-Za-z0-9_.+=-]{0,62}[A-Za-z0-9_+=-])?"
    r"@[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})(?:\.[A-Za-z0-9][A-Za-z0-9-]{0,62})*"
)

SITE_LENGTH = 100
LFN_LENGTH = 500
MAIL_ADDRESS_LENGTH = 250


def _matching(pattern: re.Pattern[str], expected: str, longest: int = 1000) -> AfterValidator:
    def check(value: str) -> str:
        if len(value) > longest or not pattern.fullmatch(value):
            raise ValueError(f"expected {expected}")
        return value

    return AfterValidator(check)


RequestName = Annotated[
    str, _matching(REQUEST_NAME, "a name of 3 to 200 letters, digits, '_' or '-', beginning with a letter")
]
SiteName = Annotated[str, _matching(SITE_NAME, "a CMS site name such as T2_US_Purdue", SITE_LENGTH)]
Word = Annotated[str, _matching(WORD, "letters, digits, '_', '.' or '-', beginning with a letter or digit")]
Dataset = Annotated[str, _matching(DATASET, "a dataset name /Primary/Processed/TIER")]
OutputDatasetName = Annotated[
    str, _matching(OUTPUT_DATASET, "a dataset name /Primary/Era-Processing-v1/TIER")
]
BlockName = Annotated[str, _matching(BLOCK, "a block name /Primary/Processed/TIER#identifier")]
PrimaryDataset = Annotated[str, _matching(PRIMARY_DATASET, "a primary dataset such as MinBias_13p6TeV")]
Era = Annotated[
    str, _matching(ERA, "an era such as Run2024A: letters, digits or '_', beginning with a letter")
]
ProcessingString = Annotated[str, _matching(PROCESSING_STRING, "letters, digits or '_'")]
Tier = Annotated[str, _matching(TIER, "a data tier such as GEN-SIM")]
Run = Annotated[str, _matching(RUN, "a run number")]
Lfn = Annotated[str, _matching(LFN, "a logical file name below /store, without '..'", LFN_LENGTH)]
LfnBase = Annotated[str, _matching(LFN_BASE, "a folder below /store", LFN_LENGTH)]
CmsswVersion = Annotated[str, _matching(CMSSW_VERSION, "a release such as CMSSW_14_0_0")]
ScramArch = Annotated[str, _matching(SCRAM_ARCH, "an architecture such as el9_amd64_gcc12")]
GlobalTag = Annotated[str, _matching(GLOBAL_TAG, "a conditions tag such as 140X_dataRun3_v3")]
AttributeName = Annotated[str, _matching(ATTRIBUTE_NAME, "a ClassAd attribute name")]
DistinguishedName = Annotated[
    str, _matching(DISTINGUISHED_NAME, "a certificate's subject such as /DC=ch/DC=cern/CN=Name", 500)
]
RseExpression = Annotated[
    str, _matching(RSE_EXPRESSION, "an expression of Rucio such as T1_US_FNAL_Tape or tier=1&country=US")
]
HostName = Annotated[str, _matching(HOST_NAME, "the name of a host such as submit-1.example.org")]
GpuVersion = Annotated[str, _matching(GPU_VERSION, "a version such as 11.2")]
MailAddress = Annotated[
    str, _matching(MAIL_ADDRESS, "a mail address such as operators@example.org", MAIL_ADDRESS_LENGTH)
]
