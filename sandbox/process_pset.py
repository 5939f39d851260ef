"""What cmsRun executes: the request's own configuration, told by job.json what to read, make and write."""

# mypy: ignore-errors
# Releases of 2018 run this with Python 2.7.

import json
import os
import runpy
import zlib

import FWCore.ParameterSet.Config as cms

LARGEST_UINT32 = 2**32 - 1


# Which kinds of pile-up each mixing module takes, the first that the step has.
MIXING = {
    "MixingModule": ("mc_pileup", "secondary"),
    "PreMixingModule": ("mc_pileup", "data_pileup", "secondary"),
    "DataMixingModule": ("data_pileup", "mc_pileup", "secondary"),
}


def simulate(process, plan):
    """An event range: numbers and lumis as planned."""
    events = plan["last_event"] - plan["first_event"] + 1
    if plan["last_event"] > LARGEST_UINT32:
        raise ValueError("event number %d is too large for a CMSSW source" % plan["last_event"])
    if plan["lumi_offset"] and plan["lumi_offset"] + events > plan["events_per_lumi"]:
        raise ValueError("a range that begins inside a lumi section must end in it")
    process.source.firstRun = cms.untracked.uint32(plan["run"])
    process.source.firstLuminosityBlock = cms.untracked.uint32(plan["first_lumi"])
    process.source.firstEvent = cms.untracked.uint32(plan["first_event"])
    process.source.numberEventsInLuminosityBlock = cms.untracked.uint32(plan["events_per_lumi"])
    process.maxEvents = cms.untracked.PSet(input=cms.untracked.int32(events))


def seed_generators(process, number):
    service = getattr(process, "RandomNumberGeneratorService", None)
    for name in service.parameterNames_() if service is not None else []:
        generator = getattr(service, name)
        if hasattr(generator, "initialSeed"):
            # CMSSW's engines take seeds up to 900 million.
            seed = zlib.crc32(("%s %d" % (name, number)).encode("ascii")) % 900000000 + 1
            generator.initialSeed = cms.untracked.uint32(seed)


def read(process, files, lumis):
    """Files, from a position in the first to a position in the last, and the lumis that count."""
    process.source.fileNames = cms.untracked.vstring(*[opened(item["pfn"]) for item in files])
    if hasattr(process.source, "secondaryFileNames"):
        process.source.secondaryFileNames = cms.untracked.vstring()
    process.source.skipEvents = cms.untracked.uint32((files[0]["first_event"] or 1) - 1)
    process.maxEvents = cms.untracked.PSet(input=cms.untracked.int32(number_to_read(files)))
    if lumis is not None:
        ranges = [
            str("%s:%d-%s:%d") % (run, first, run, last)
            for run in sorted(lumis)
            for first, last in lumis[run]
        ]
        process.source.lumisToProcess = cms.untracked.VLuminosityBlockRange(*ranges)


def opened(name):
    return str(name) if "://" in name else "file:" + str(name)


def mix(process, pileup, deterministic):
    """Each mixing module gets its list; what the step names and no module mixes in must not pass unnoticed."""
    used = set()
    for module in list(process.producers_().values()) + list(process.filters_().values()):
        kind = next((kind for kind in MIXING.get(module.type_(), ()) if kind in pileup), None)
        # Old releases call it secsource. A module without either has nothing to mix in.
        sources = [getattr(module, name) for name in ("input", "secsource") if hasattr(module, name)]
        for source in sources if kind else ():
            used.add(kind)
            told = pileup[kind]
            names = [str(name) if told["logical"] else opened(name) for name in told["files"]]
            source.fileNames = cms.untracked.vstring(*names)
            if deterministic:
                source.sequential = cms.untracked.bool(True)
                source.skipEvents = cms.untracked.uint32(told["skip_events"])
    unused = sorted(set(pileup) - used - {"secondary"})
    if unused:
        raise ValueError("the configuration has no module that mixes in the " + ", ".join(unused))


def number_to_read(files):
    """-1 to read on to the end of the last file. CMSSW skips in front and stops at a number, nothing in between."""
    if any(item["first_event"] not in (None, 1) for item in files[1:]):
        raise ValueError("only the first file can begin inside")
    if any(item["last_event"] not in (None, item["events"]) for item in files[:-1]):
        raise ValueError("only the last file can end inside")
    if files[-1]["last_event"] is None:
        return -1
    lasts = [item["last_event"] or item["events"] for item in files]
    return sum(lasts) - (files[0]["first_event"] or 1) + 1


def write(process, outputs):
    for name, module in process.outputModules_().items():
        module.fileName = cms.untracked.string("file:%s.root" % str(name))
    missing = [item["module"] for item in outputs if item["module"] not in process.outputModules_()]
    if missing:
        raise ValueError("the configuration has no output module " + ", ".join(missing))


def configured(job):
    process = runpy.run_path(os.path.join(job["job_folder"], job["parameters"]["pset"]))["process"]
    if job["input_files"]:
        read(process, job["input_files"], job["lumis"])
    else:
        simulate(process, job["simulation"])
    seed_generators(process, job["seed"])
    mix(process, job.get("pileup", {}), job["parameters"].get("deterministic_pileup"))
    write(process, job["outputs"])
    if not hasattr(process, "options"):
        process.options = cms.untracked.PSet()
    process.options.numberOfThreads = cms.untracked.uint32(job["threads"])
    process.options.numberOfStreams = cms.untracked.uint32(job["streams"])
    if job["parameters"].get("global_tag"):
        process.GlobalTag.globaltag = cms.string(str(job["parameters"]["global_tag"]))
    return process


with open("job.json") as stream:
    process = configured(json.load(stream))
