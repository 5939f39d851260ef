"""Mode `process`: the node's whole plan through the chain of steps, outputs to the site's storage."""

from __future__ import annotations

from sandbox import portion, steps
from sandbox.fjr import Lumi
from sandbox.job import Job
from sandbox.manifest import Node
from sandbox.report import OutputFile
from sandbox.steps import ChainResult


def run(job: Job) -> None:
    node = job.manifest.node(job.node)
    result = steps.run_chain(job, node, portion.whole(node), job.folder)
    stage_out(job, node, result)


def stage_out(job: Job, node: Node, result: ChainResult, iteration: int | None = None) -> None:
    """Every output that the manifest names, then what was read; all files must be there before the first is copied."""
    suffix = "" if iteration is None else f"_{iteration}"
    parents = [file.lfn for file in node.files]
    products = [(output, result.product(output.step, output.module)) for output in job.manifest.outputs]
    for output, product in products:
        name = f"{output.file_prefix}_{job.node}_{job.cluster}_{output.module}{suffix}.root"
        lfn = f"{output.unmerged_base}/{name}"
        job.report.outputs.append(
            OutputFile(
                module=output.module,
                dataset=output.dataset,
                lfn=lfn,
                site=job.site,
                size_bytes=product.path.stat().st_size,
                events=product.events,
                adler32=job.stage_out.put(product.path, lfn),
                lumis=[lumi_record(lumi) for lumi in product.lumis],
                parents=parents,
            )
        )
    _add_inputs(job, node, result)


def lumi_record(lumi: Lumi) -> dict[str, int | None]:
    return {"run": lumi.run, "lumi": lumi.lumi, "events": lumi.events}


def _add_inputs(job: Job, node: Node, result: ChainResult) -> None:
    """How many events were read of each file, added up over the iterations of a pilot."""
    read = {item["lfn"]: item for item in job.report.inputs}
    for file in node.files:
        read.setdefault(file.lfn, {"lfn": file.lfn, "events_read": 0})
    for entry in result.first.report.inputs:
        item = next((item for item in result.first.inputs if steps.names(entry, item)), None)
        if item:
            read[item["lfn"]]["events_read"] += entry.events_read
    job.report.inputs = list(read.values())
