"""What WMCore's own splitters make of inputs drawn at random: prints the inputs and the jobs, one JSON document.

Run it where PyPI's `wmcore` is installed (`pip install --no-deps wmcore future` will do), and keep what it prints as
`plans.json`. Left out on purpose: files with so few events that the average of a lumi section rounds to zero, because
WMCore then puts any number of them into one job.
"""

import json
import sys
from random import Random

from WMCore.DataStructs.File import File
from WMCore.DataStructs.Fileset import Fileset
from WMCore.DataStructs.Run import Run
from WMCore.DataStructs.Subscription import Subscription
from WMCore.DataStructs.Workflow import Workflow
from WMCore.JobSplitting.SplitterFactory import SplitterFactory

CASES = 150
PLACES = (["T1_US_FNAL"], ["T1_US_FNAL", "T2_CH_CERN"], ["T2_DE_DESY"])
ALGORITHMS = {
    "LumiBased": ("lumis_per_job", (1, 3, 8, 100)),
    "EventAwareLumiBased": ("events_per_job", (50, 500, 5000)),
    "FileBased": ("files_per_job", (1, 3)),
    "EventBased": ("events_per_job", (100, 700)),
}


def drawn_files(random, runs, shared):
    """Files one after another in each run, with gaps; with `shared`, some begin in the last lumi section before."""
    places = PLACES[:1] if shared else PLACES[: random.choice((1, 2, 3))]
    reached = dict.fromkeys(range(1, runs + 1), 0)
    files = []
    for number in range(random.choice((1, 3, 8))):
        lumis = []
        for run in sorted(random.sample(sorted(reached), random.choice((1, 1, min(2, runs))))):
            first = reached[run] + (0 if shared and reached[run] and random.random() < 0.5 else 1)
            for length in random.choices((1, 2, 5, 9), k=random.choice((1, 2))):
                lumis.append((run, first, first + length - 1))
                reached[run] = first + length - 1
                first = reached[run] + random.choice((1, 3))
        files.append((number, random.choice((0, 100, 333, 1000, 12345)), random.choice(places), lumis))
    return files


def drawn_case(random):
    algorithm = random.choice([*ALGORITHMS, "LumiBased", "EventAwareLumiBased"])
    name, sizes = ALGORITHMS[algorithm]
    case = {"algorithm": algorithm, "size": {name: random.choice(sizes)}}
    case["files"] = drawn_files(random, random.choice((1, 2, 4)), random.random() < 0.3)
    if "Lumi" in algorithm:
        case["halts"], case["splits_on_run"] = random.random() < 0.4, random.random() < 0.6
        case["runs"] = random.choice(([], [], [1], [1, 3]))
        pairs = ([[1, 4]], [[2, 2], [5, 9]], [[3, 40]])
        case["mask"] = {str(run): random.choice(pairs) for run in (1, 2)} if random.random() < 0.4 else {}
    return case


def jobs_of(case):
    files = Fileset(name="inputs")
    for number, events, places, lumis in case["files"]:
        file = File(f"/store/{number:06d}.root", events=events, locations=set(places))
        for run in sorted({run for run, _, _ in lumis}):
            held = [range(first, last + 1) for other, first, last in lumis if other == run]
            file.addRun(Run(run, *(lumi for some in held for lumi in some)))
        files.addFile(file)
    options = dict(case["size"])
    if "Lumi" in case["algorithm"]:
        options |= {"halt_job_on_file_boundaries": case["halts"], "splitOnRun": case["splits_on_run"]}
        options |= {"runWhitelist": case["runs"], "applyLumiCorrection": True}
        options["runs"] = [int(run) for run in case["mask"]]
        options["lumis"] = [
            ",".join(str(n) for pair in pairs for n in pair) for pairs in case["mask"].values()
        ]
    work = Subscription(files, Workflow(), split_algo=case["algorithm"], type="Processing")
    groups = SplitterFactory()(package="WMCore.DataStructs", subscription=work)(**options)
    return sorted(described(job) for group in groups for job in group.jobs)


def described(job):
    """Its files, each once; its lumi sections one by one; its first and last event."""
    numbers = sorted({int(file["lfn"][-11:-5]) for file in job["input_files"]})
    mask = job["mask"]
    spans = [(int(run), *span) for run, found in (mask.getRunAndLumis() or {}).items() for span in found]
    lumis = sorted((run, lumi) for run, first, last in spans for lumi in range(first, last + 1))
    events = [mask["FirstEvent"] or 0, -1 if mask["LastEvent"] is None else mask["LastEvent"]]
    return numbers, lumis, events


cases = [drawn_case(Random(seed)) for seed in range(CASES)]
json.dump([{**case, "jobs": jobs_of(case)} for case in cases], sys.stdout, separators=(",", ":"))
