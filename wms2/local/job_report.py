"""The FrameworkJobReport.xml that the demo payload writes, in the form that cmsRun writes it."""

import resource
import time
import uuid
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from wms2.local.events import Numbers

NAME = "FrameworkJobReport.xml"


class FileRecord:
    """A file that was read or written, with the events of each lumi."""

    def __init__(self, lfn: str, pfn: str, module: str) -> None:
        self.lfn = lfn
        self.pfn = pfn
        self.module = module
        self.lumis: Counter[tuple[int, int]] = Counter()

    @property
    def events(self) -> int:
        return self.lumis.total()

    def count(self, numbers: Numbers) -> None:
        self.lumis.update(numbers.per_lumi())

    def runs(self) -> ElementTree.Element:
        element = ElementTree.Element("Runs")
        runs: dict[int, ElementTree.Element] = {}
        for (run, lumi), events in sorted(self.lumis.items()):
            if run not in runs:
                runs[run] = ElementTree.SubElement(element, "Run", ID=str(run))
            ElementTree.SubElement(runs[run], "LumiSection", ID=str(lumi), NEvents=str(events))
        return element


class JobReport:
    """Filled while the payload works, written once at its end."""

    def __init__(self) -> None:
        self.inputs: list[FileRecord] = []
        self.outputs: list[FileRecord] = []
        self.pileup: list[FileRecord] = []
        self._started = time.monotonic()

    def add_input(self, lfn: str, pfn: str) -> FileRecord:
        self.inputs.append(FileRecord(lfn, pfn, "source"))
        return self.inputs[-1]

    def add_pileup(self, pfn: str) -> FileRecord:
        self.pileup.append(FileRecord("", pfn, "mix"))
        return self.pileup[-1]

    def add_output(self, module: str, pfn: str) -> FileRecord:
        self.outputs.append(FileRecord("", pfn, module))
        return self.outputs[-1]

    def write(self, folder: Path, code: int = 0, kind: str = "", message: str = "") -> None:
        """Like cmsRun: a report of a failed process names the error and no output."""
        root = ElementTree.Element("FrameworkJobReport")
        if code:
            error = ElementTree.SubElement(root, "FrameworkError", ExitStatus=str(code), Type=kind)
            error.text = message
        for record in self.inputs:
            root.append(_input_file(record, "primaryFiles", "PoolSource"))
        for record in self.pileup:
            root.append(_input_file(record, "mixingFiles", "EmbeddedRootSource"))
        for record in [] if code else self.outputs:
            root.append(_file(record))
        root.append(self._performance())
        ElementTree.indent(root)
        ElementTree.ElementTree(root).write(folder / NAME, encoding="utf-8")

    def _performance(self) -> ElementTree.Element:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        wall = time.monotonic() - self._started
        events = max([record.events for record in [*self.inputs, *self.outputs]], default=0)
        element = ElementTree.Element("PerformanceReport")
        _summary(element, "ApplicationMemory", PeakValueRss=f"{usage.ru_maxrss * 1024 / 1e6:.1f}")
        _summary(element, "ProcessingSummary", NumberEvents=str(events))
        _summary(
            element,
            "Timing",
            TotalJobTime=f"{wall:.3f}",
            TotalJobCPU=f"{usage.ru_utime + usage.ru_stime:.3f}",
            AvgEventTime=f"{wall / max(1, events):.6f}",
            NumberOfThreads="1",
        )
        return element


def _input_file(record: FileRecord, kind: str, source: str) -> ElementTree.Element:
    element = _element("InputFile", LFN=record.lfn, PFN=record.pfn, ModuleLabel=record.module)
    ElementTree.SubElement(element, "InputType").text = kind
    ElementTree.SubElement(element, "InputSourceClass").text = source
    ElementTree.SubElement(element, "EventsRead").text = str(record.events)
    element.append(record.runs())
    return element


def _file(record: FileRecord) -> ElementTree.Element:
    element = _element("File", LFN=record.lfn, PFN=record.pfn, ModuleLabel=record.module)
    ElementTree.SubElement(element, "GUID").text = str(uuid.uuid4()).upper()
    ElementTree.SubElement(element, "OutputModuleClass").text = "PoolOutputModule"
    ElementTree.SubElement(element, "TotalEvents").text = str(record.events)
    element.append(record.runs())
    return element


def _element(tag: str, **children: str) -> ElementTree.Element:
    element = ElementTree.Element(tag)
    for name, text in children.items():
        ElementTree.SubElement(element, name).text = text
    return element


def _summary(parent: ElementTree.Element, metric: str, **values: str) -> None:
    summary = ElementTree.SubElement(parent, "PerformanceSummary", Metric=metric)
    for name, value in values.items():
        ElementTree.SubElement(summary, "Metric", Name=name, Value=value)
