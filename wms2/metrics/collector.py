"""The collector: what Prometheus is told when it asks, from one look at the database and at admission."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from statistics import fmean

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector
from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError

from wms2.core.admission import AdmissionState, free_dagmans
from wms2.core.time_limits import TIME_LIMITS
from wms2.db.figures import Figures, read_figures
from wms2.db.session import transaction
from wms2.metrics.catalogue import ADMISSION, DATABASE
from wms2.models.dag import DagStatus
from wms2.models.output import OutputStatus
from wms2.models.request import RequestStatus

log = logging.getLogger(__name__)

FRESH_SEC = 10.0
"""For how long an answer is given again: several Prometheus servers cost no more than one."""
HELD_KINDS = ("failures", "operator", "problem")

Families = list[GaugeMetricFamily]
AskAdmission = Callable[[], AdmissionState | None]


class SystemCollector(Collector):
    """Whoever serves metrics registers one. It never raises: what does not answer is told as such."""

    def __init__(
        self,
        engine: Engine,
        ask_admission: AskAdmission | None = None,
        limits: Mapping[RequestStatus, timedelta] = TIME_LIMITS,
    ) -> None:
        self._engine = engine
        self._ask_admission = ask_admission
        self._limits = {str(status): limit.total_seconds() for status, limit in limits.items()}
        self._lock = threading.Lock()
        self._answer: Families = []
        self._answered_at: float | None = None

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """The names alone, so that registering costs no look."""
        meanings = DATABASE if self._ask_admission is None else {**DATABASE, **ADMISSION}
        for name in meanings:
            yield _family(meanings, name)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        with self._lock:
            if self._answered_at is None or time.monotonic() - self._answered_at > FRESH_SEC:
                self._answer = [*self._database(), *self._admission()]
                self._answered_at = time.monotonic()
            yield from self._answer

    def _database(self) -> Families:
        began = time.monotonic()
        now = datetime.now(UTC)
        try:
            with transaction(self._engine) as session:
                figures = read_figures(session, now)
        except DBAPIError as error:
            log.warning("the database did not answer: %s", str(error).splitlines()[0])
            return [_value(DATABASE, "wms2_database_up", 0)]
        return [
            _value(DATABASE, "wms2_database_up", 1),
            _value(DATABASE, "wms2_database_read_seconds", time.monotonic() - began),
            *_of_requests(figures, now),
            _values(DATABASE, "wms2_status_limit_seconds", self._limits),
            *_of_dags(figures),
            *_of_predictions(figures),
            *_of_the_rest(figures),
        ]

    def _admission(self) -> Families:
        if self._ask_admission is None:
            return []
        state = self._ask_admission()
        if state is None:
            return [_value(ADMISSION, "wms2_admission_up", 0)]
        free = {host: float(count) for host, count in free_dagmans(state).items()}
        return [
            _value(ADMISSION, "wms2_admission_up", 1),
            _value(ADMISSION, "wms2_admission_queue_depth", len(state.waiting)),
            _value(ADMISSION, "wms2_admission_slots_lent", len(state.leases)),
            _value(ADMISSION, "wms2_admission_slots_limit", state.limit),
            _value(ADMISSION, "wms2_admission_draining", int(state.draining)),
            _value(ADMISSION, "wms2_admission_idle_jobs_budget", state.idle_budget),
            _value(ADMISSION, "wms2_admission_idle_jobs_lent", state.idle_lent),
            _values(ADMISSION, "wms2_host_dagmans_free", free),
        ]


def _of_requests(figures: Figures, now: datetime) -> Families:
    waits = {status: (now - since).total_seconds() for status, since in figures.waiting_since.items()}
    return [
        _values(DATABASE, "wms2_requests", {**dict.fromkeys(RequestStatus, 0), **figures.requests}),
        _values(DATABASE, "wms2_oldest_wait_seconds", waits),
        _values(DATABASE, "wms2_held_requests", {**dict.fromkeys(HELD_KINDS, 0), **figures.held}),
    ]


def _of_dags(figures: Figures) -> Families:
    progress = _family(DATABASE, "wms2_dag_progress")
    for dag in figures.running:
        progress.add_metric([dag.request, str(dag.round)], dag.progress)
    families = [
        _values(DATABASE, "wms2_dags", {**dict.fromkeys(DagStatus, 0), **figures.dags}),
        progress,
        _values(DATABASE, "wms2_dag_nodes", dict(figures.nodes)),
    ]
    if figures.node_success is not None:
        families.append(_value(DATABASE, "wms2_node_success_ratio", figures.node_success))
    return families


def _of_predictions(figures: Figures) -> Families:
    counts, errors = Counter[tuple[str, str, str]](), defaultdict[tuple[str, str], list[float]](list)
    for source, comparison in figures.predictions:
        figure = comparison.figure.lower().replace(" ", "_")
        counts[figure, source, "good" if comparison.good else "off"] += 1
        errors[figure, source].append(abs(comparison.percent) / 100)
    predictions = _family(DATABASE, "wms2_predictions")
    for labels, count in counts.items():
        predictions.add_metric(labels, count)
    error = _family(DATABASE, "wms2_prediction_error_ratio")
    for about, values in errors.items():
        error.add_metric(about, fmean(values))
    return [predictions, error]


def _of_the_rest(figures: Figures) -> Families:
    banned = {"all": figures.banned_for_all, "request": figures.banned_for_some}
    return [
        _values(DATABASE, "wms2_outputs", {**dict.fromkeys(OutputStatus, 0), **figures.outputs}),
        _values(DATABASE, "wms2_output_blocks", figures.blocks),
        _values(DATABASE, "wms2_sites", figures.sites),
        _values(DATABASE, "wms2_sites_banned", banned),
        _values(DATABASE, "wms2_digests", figures.digests),
    ]


def _family(meanings: Mapping[str, tuple[str, tuple[str, ...]]], name: str) -> GaugeMetricFamily:
    words, labels = meanings[name]
    return GaugeMetricFamily(name, words, labels=labels)


def _value(meanings: Mapping[str, tuple[str, tuple[str, ...]]], name: str, value: float) -> GaugeMetricFamily:
    family = _family(meanings, name)
    family.add_metric([], value)
    return family


def _values(
    meanings: Mapping[str, tuple[str, tuple[str, ...]]], name: str, values: Mapping[str, float]
) -> GaugeMetricFamily:
    """By the one label that the metric has."""
    family = _family(meanings, name)
    for label, value in values.items():
        family.add_metric([str(label)], value)
    return family
