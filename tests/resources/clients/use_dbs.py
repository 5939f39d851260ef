"""Everything that WMS2 asks of DBS, asked by dbs3-client. Arguments: the URL and a file with what to insert."""

import json
import sys
from pathlib import Path

from dbs.apis.dbsClient import DbsApi
from RestClient.ErrorHandling.RestClientExceptions import HTTPError

url, bulk_file = sys.argv[1:]
parent, child = json.loads(Path(bulk_file).read_text())
dataset, block = child["dataset"]["dataset"], child["block"]["block_name"]
lfns = [file["logical_file_name"] for file in child["files"]]


def refused(call, *arguments, **named):
    """The status and DBS's own number."""
    try:
        call(*arguments, **named)
    except HTTPError as error:
        return [error.code, error.server_code]
    return None


api = DbsApi(url=url)
zipping = DbsApi(url=url, useGzip=True)
streaming = DbsApi(url=url, accept="application/ndjson")
said = {
    "orphan": refused(api.insertBulkBlock, child),
    "inserted": [api.insertBulkBlock(parent), zipping.insertBulkBlock(child)],
    "again": refused(api.insertBulkBlock, child),
    "nameless": refused(api.insertBulkBlock, {**child, "block": {**child["block"], "block_name": "x"}}),
    "valid at first": api.listDatasets(dataset=dataset),
    "in production": api.listDatasets(dataset=dataset, dataset_access_type="PRODUCTION", detail=True),
    "announced": api.updateDatasetType(dataset=dataset, dataset_access_type="VALID"),
    "valid": api.listDatasets(dataset=dataset),
    "blocks": api.listBlocks(dataset=dataset, detail=True),
    "block of a file": api.listBlocks(logical_file_name=lfns[0]),
    "block summaries": api.listBlockSummaries(dataset=dataset),
    "origin": api.listBlockOrigin(block_name=block),
    "files": api.listFiles(block_name=block, detail=True),
    "streamed": [row["logical_file_name"] for row in streaming.listFiles(dataset=dataset)],
    "some files": api.listFileArray(logical_file_name=lfns),
    "lumis": api.listFileLumis(block_name=block),
    "lumis of files": api.listFileLumiArray(logical_file_name=lfns),
    "file summaries": api.listFileSummaries(dataset=dataset),
    "parents of files": api.listFileParents(block_name=block),
    "parents of the block": api.listBlockParents(block_name=block),
    "parents of blocks": api.listBlockParents(block_name=[block]),
    "parents of the dataset": api.listDatasetParents(dataset=dataset),
    "children": api.listDatasetChildren(dataset=parent["dataset"]["dataset"]),
    "configurations": api.listOutputConfigs(dataset=dataset),
    "eras": api.listAcquisitionEras(),
    "one made invalid": api.updateFileStatus(logical_file_name=lfns[0], is_file_valid=0),
    "still valid": [row["logical_file_name"] for row in api.listFiles(block_name=block, validFileOnly=1)],
    "all made invalid": api.updateFileStatus(logical_file_name=lfns, is_file_valid=0),
    "none valid": api.listFiles(dataset=dataset, validFileOnly=1),
    "opened": api.updateBlockStatus(block_name=block, open_for_writing=1),
    "is open": api.listBlocks(block_name=block, detail=True)[0]["open_for_writing"],
    "closed": api.updateBlockStatus(block_name=block, open_for_writing=0),
    "is closed": api.listBlocks(block_name=block, detail=True)[0]["open_for_writing"],
    "moved": api.updateBlockSiteName(block_name=block, origin_site_name="T1_US_FNAL"),
    "withdrawn": api.updateDatasetType(dataset=dataset, dataset_access_type="INVALID"),
    "no access type": refused(api.updateDatasetType, dataset=dataset, dataset_access_type="GOOD"),
}
# The client itself prints what a server refuses.
Path(bulk_file).with_suffix(".said").write_text(json.dumps(said))
