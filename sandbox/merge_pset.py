"""What cmsRun executes to merge: all events of the named files into one, cloned without being unpacked."""

# mypy: ignore-errors
# Releases of 2018 run this with Python 2.7.

import json

import FWCore.ParameterSet.Config as cms

with open("job.json") as stream:
    job = json.load(stream)

process = cms.Process("MERGE")
process.source = cms.Source(
    "PoolSource",
    fileNames=cms.untracked.vstring(*["file:" + str(item["pfn"]) for item in job["input_files"]]),
    duplicateCheckMode=cms.untracked.string("noDuplicateCheck"),
)
process.Merged = cms.OutputModule(
    "PoolOutputModule",
    fileName=cms.untracked.string("file:" + str(job["outputs"][0]["file"])),
    fastCloning=cms.untracked.bool(True),
)
process.outputPath = cms.EndPath(process.Merged)
