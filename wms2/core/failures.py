"""What the failures of a DAG come to: the main causes in a few words, a pattern across nodes, what to do next."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from wms2.core.plain import plain_line
from wms2.models.failure import Cause, FailedNode, FailureSummary, FileFailure, RecordedFailures
from wms2.models.policy import Category
from wms2.models.request import RequestStatus

MOST_CAUSES = 100
CAUSES_TOLD = 3
WORDS_LENGTH = 400
CAUSES_ON_PAGE, NODES_ON_PAGE, TAIL_ON_PAGE, TAIL_WIDTH = 10, 5, 5, 200
"""A page is kept in Temporal's history: it stays small, however much failed."""
PERMANENT = "permanent"
INFRASTRUCTURE = "infrastructure"
DATA = "data"

Kind = tuple[str, int | None, str | None]
"""Category, exit code and site."""


class Tally:
    """Counts the failures of a DAG, work unit by work unit, in bounded memory but for the kinds themselves."""

    def __init__(self) -> None:
        self.units: Counter[Kind] = Counter()
        self.nodes: Counter[Kind] = Counter()

    def add(self, failed: Sequence[FailedNode]) -> None:
        """The failed nodes of one work unit, at least one."""
        kinds = [(node.category, node.exit_code, node.site) for node in failed]
        self.units[_main(kinds)] += 1
        self.nodes.update(kinds)

    def causes(self) -> tuple[Cause, ...]:
        ranked = sorted(self.nodes, key=lambda kind: (-self.units[kind], -self.nodes[kind], str(kind)))
        return tuple(
            Cause(category=category, exit_code=code, site=site, units=self.units[kind], nodes=self.nodes[kind])
            for kind in ranked[:MOST_CAUSES]
            for category, code, site in [kind]
        )  # fmt: skip


def _main(kinds: list[Kind]) -> Kind:
    """The most frequent kind; of equal ones the first."""
    return Counter(kinds).most_common(1)[0][0]


def causes_in_words(summary: FailureSummary) -> str:
    """3 infrastructure at T2_US_Purdue (60311), 1 permanent (8001)"""
    grouped: dict[tuple[str, int | None], list[Cause]] = defaultdict(list)
    for cause in summary.causes:
        if cause.units:
            grouped[cause.category, cause.exit_code].append(cause)
    ranked = sorted(grouped.values(), key=_units, reverse=True)
    words = [_words(causes) for causes in ranked[:CAUSES_TOLD]]
    if others := sum(map(_units, ranked[CAUSES_TOLD:])):
        words.append(f"{others} for other causes")
    if summary.units_unfinished:
        words.append(f"{summary.units_unfinished} not finished")
    return plain_line("; ".join(filter(None, [summary.note, ", ".join(words)])), WORDS_LENGTH)


def failure_page(summary: FailureSummary, nodes: Sequence[FailedNode], files: Sequence[FileFailure]) -> str:
    """What failed, for a page in the Web UI: causes, the first nodes with the ends of their logs, input files."""
    if not summary.causes:
        return ""
    lines = ["| category | exit code | site | work units | nodes |", "|---|---|---|---|---|"]
    for cause in summary.causes[:CAUSES_ON_PAGE]:
        cells = (cause.category, cause.exit_code or "-", cause.site or "-", cause.units, cause.nodes)
        lines.append(f"| {' | '.join(map(str, cells))} |")
    for node in nodes[:NODES_ON_PAGE]:
        lines += ["", *_node_on_page(node)]
    bad = sorted({(file.lfn, file.site or "-") for file in files})[:NODES_ON_PAGE]
    if bad:
        lines += [
            "",
            "Input files that could not be read:",
            "",
            *(f"- `{lfn}` at {site}" for lfn, site in bad),
        ]
    return "\n".join(lines)


def _node_on_page(node: FailedNode) -> list[str]:
    code = "" if node.exit_code is None else f" {node.exit_code}"
    where = f"mg_{node.work_unit:06d} {node.node}".strip()
    head = f"`{where}` at {node.site or '-'}: {node.category}{code} after {node.attempts} attempts"
    tail = [plain_line(line, TAIL_WIDTH) for line in node.log_tail.splitlines()[-TAIL_ON_PAGE:]]
    quoted = [f"    {line}" for line in (plain_line(node.message, TAIL_WIDTH), *tail) if line]
    return [head, "", *quoted] if quoted else [head]


def _units(causes: Sequence[Cause]) -> int:
    return sum(cause.units for cause in causes)


def _words(causes: Sequence[Cause]) -> str:
    first = causes[0]
    sites = sorted({cause.site for cause in causes if cause.site})
    # Elsewhere than with infrastructure the site is not what failed.
    where = "" if first.category != INFRASTRUCTURE or not sites else f" at {_listed(sites)}"
    code = "" if first.exit_code is None else f" ({first.exit_code})"
    return f"{_units(causes)} {first.category}{where}{code}"


def _listed(sites: Sequence[str]) -> str:
    return " and ".join(sites) if len(sites) <= 2 else f"{len(sites)} sites"


def same_failure(succeeded: int, failed: Mapping[tuple[str, int | None], int], least: int) -> int | None:
    """The exit code with which every finished node failed for good, once there are several; None otherwise.

    `failed` counts by category and exit code. One success, or a second kind of failure, and it is no pattern.
    """
    if succeeded or len(failed) != 1:
        return None
    ((category, code), count) = next(iter(failed.items()))
    return code if category == PERMANENT and count >= least else None


_IF_WRONG = (
    "if the request itself is wrong, `wms2 request fail {name}` and submit it corrected, under another name"
)
_ADVICE = {
    INFRASTRUCTURE: "wait until {sites} is well, then `wms2 request release {name}`; "
    "or go on without it: `wms2 request release {name} --avoid-site {site}`",
    PERMANENT: f"read the log tails: {_IF_WRONG}; else `wms2 request release {{name}}`",
    DATA: "`wms2 request release {name}`: the bad input files are excluded, the others attempted again",
    "resource:memory": "give its jobs more memory: `wms2 request release {name} --memory-mb MB`",
    "resource:time": "give its jobs fewer events with `wms2 request size {name}`, then `wms2 request release {name}`",
    "resource:disk": "give its jobs more disk with `wms2 request size {name}`, then `wms2 request release {name}`",
    "unclassified": "look at them with `wms2 request pending {name}` and say what they are with "
    "`wms2 request judge {name}`; what may be tried again then goes on",
}
_ADVICE_WITHOUT_INPUT = {
    **_ADVICE,
    DATA: "read the log tails: jobs could not use what they read, such as pile-up or a configuration; mend that, then "
    "`wms2 request release {name}`",
}
_ADVICE_OTHERWISE = (
    f"read the reason: {_IF_WRONG}; else mend what it names, then `wms2 request release {{name}}`"
)


def advice(
    status: RequestStatus, name: str, summary: FailureSummary | None, *, simulation: bool = False
) -> str:
    """What a person can do next, in one sentence. A simulation has no input files that could be left out."""
    if status.is_final:
        return f"{name} has ended: nothing is left to do for it."
    if status is not RequestStatus.HELD:
        return "Nothing is to be done: what fails is retried, rescued or put before a person by itself."
    causes = summary.causes if summary else ()
    known = _ADVICE_WITHOUT_INPUT if simulation else _ADVICE
    words = known.get(causes[0].category if causes else "", _ADVICE_OTHERWISE)
    sites = main_sites(causes) or ["the site"]
    sentence = words.format(name=name, site=sites[0], sites=" or ".join(sites[:2]))
    return f"What to do: {sentence}."


def main_sites(causes: Iterable[Cause]) -> list[str]:
    """Sites with infrastructure failures, the worst first."""
    counted: Counter[str] = Counter()
    for cause in causes:
        if cause.site and cause.category == INFRASTRUCTURE:
            counted[cause.site] += cause.nodes
    return [site for site, _ in counted.most_common()]


def unjudged(dags: Iterable[RecordedFailures]) -> Iterator[FailedNode]:
    """Nodes that gave up for a reason that no rule knows, in the newest DAG of each round."""
    newest = {dag.round: dag for dag in sorted(dags, key=lambda dag: dag.attempt)}
    for _, dag in sorted(newest.items()):
        yield from (node for node in dag.nodes if node.category == Category.UNCLASSIFIED)
