"""Request files to look at: one with a chain of tasks holds several requests."""

from pathlib import Path

from wms2.models.chain import LinkedRequest
from wms2.models.document import read_text
from wms2.models.imports import linked_requests
from wms2.models.reqmgr2 import parts_from_reqmgr2
from wms2.models.request_file import is_of_reqmgr2, read_document, read_request, submitter


def read_linked_requests(path: Path) -> list[LinkedRequest]:
    """The requests that a file holds, each after the one that it reads from, or a RequestFileError.

    Outputs that a document of ReqMgr2 does not list yet have stand-ins, so none of this is for submitting.
    """
    text, source = read_text(path), str(path)
    document = read_document(text, source)
    if is_of_reqmgr2(document) and document.get("RequestType") == "TaskChain":
        parts = parts_from_reqmgr2(document, source, submitter(), unnamed_outputs=True)
        return linked_requests(parts, source)
    return [LinkedRequest(request=read_request(text, source, unnamed_outputs=True))]
