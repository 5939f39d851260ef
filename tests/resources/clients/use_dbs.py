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
    "by tier": api.listDatasets(data_tier_name="GEN-SIM", primary_ds_name="Pr*", acquisition_era_name="Era"),
    "of another tier": api.listDatasets(data_tier_name="AOD", dataset_access_type="*"),
    "of a parent": api.listDatasets(parent_dataset=parent["dataset"]["dataset"]),
    "made with": api.listDatasets(release_version="CMSSW_14_0_0", dataset_access_type="*"),
    "some datasets": api.listDatasetArray(dataset=[dataset, "/No/Such-v1/RAW"], detail=True),
    "blocks": api.listBlocks(dataset=dataset, detail=True),
    "blocks like that": api.listBlocks(block_name=f"{dataset}#*"),
    "dump": api.blockDump(block_name=block),
    "block of a file": api.listBlocks(logical_file_name=lfns[0]),
    "block summaries": api.listBlockSummaries(dataset=dataset),
    "origin": api.listBlockOrigin(block_name=block),
    "files": api.listFiles(block_name=block, detail=True),
    "streamed": [row["logical_file_name"] for row in streaming.listFiles(dataset=dataset)],
    "some files": api.listFileArray(logical_file_name=lfns),
    "lumis": api.listFileLumis(block_name=block),
    "lumis of files": api.listFileLumiArray(logical_file_name=lfns),
    "lumis of no run": api.listFileLumis(block_name=block, run_num="7-9"),
    "files of lumis": api.listFileArray(dataset=dataset, run_num="1-2", lumi_list=[[2, 9]]),
    "of run 1": refused(api.listFiles, dataset=dataset, run_num=1),
    "runs": api.listRuns(dataset=dataset),
    "last lumi": api.listRunSummaries(dataset=dataset, run_num=1),
    "file summaries": api.listFileSummaries(dataset=dataset),
    "of no run": api.listFileSummaries(dataset=dataset, run_num=7),
    "parents of files": api.listFileParents(block_name=block),
    "parents of the block": api.listBlockParents(block_name=block),
    "parents of blocks": api.listBlockParents(block_name=[block]),
    "parents of the dataset": api.listDatasetParents(dataset=dataset),
    "children": api.listDatasetChildren(dataset=parent["dataset"]["dataset"]),
    "children of the block": api.listBlockChildren(block_name=parent["block"]["block_name"]),
    "children of files": api.listFileChildren(block_name=parent["block"]["block_name"]),
    "configurations": api.listOutputConfigs(dataset=dataset),
    "eras": api.listAcquisitionEras(),
    "shared": [
        api.listPrimaryDatasets(primary_ds_type="mc")[0]["primary_ds_name"],
        sorted(row["data_tier_name"] for row in api.listDataTiers()),
        api.listProcessingEras()[0]["processing_version"],
        api.listReleaseVersions(dataset=dataset),
        api.listPhysicsGroups(),
        api.listDatasetAccessTypes(dataset_access_type="VALID"),
    ],
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
