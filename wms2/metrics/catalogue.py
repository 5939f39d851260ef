"""Every metric that WMS2 has beside those of Temporal's SDK: its name, what it means, and its labels.

Names are for ever: dashboards and alerts that people wrote themselves use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Meaning(NamedTuple):
    words: str
    labels: tuple[str, ...] = ()


DATABASE: Mapping[str, Meaning] = {
    "wms2_database_up": Meaning("1 when the database answered; without it nothing else of it is told"),
    "wms2_database_read_seconds": Meaning("How long the database took to answer"),
    "wms2_requests": Meaning("Requests by status", ("status",)),
    "wms2_oldest_wait_seconds": Meaning("For how long the longest has been in a status", ("status",)),
    "wms2_status_limit_seconds": Meaning("How long a request may be in a status", ("status",)),
    "wms2_held_requests": Meaning(
        "Requests that wait for a person: over failures of a DAG, the word of an operator, or a problem",
        ("kind",),
    ),
    "wms2_dags": Meaning("DAGs by status", ("status",)),
    "wms2_dag_progress": Meaning(
        "Of the nodes of a running DAG, the part that is done", ("request", "round")
    ),
    "wms2_dag_nodes": Meaning("Nodes of all running DAGs by state", ("state",)),
    "wms2_node_success_ratio": Meaning(
        "Of the nodes of rounds that ran to their end in the last 7 days, the part that was done"
    ),
    "wms2_predictions": Meaning(
        "What was predicted of the jobs of rounds that were closed in the last 7 days: good within 20 %, or off",
        ("figure", "predicted_by", "verdict"),
    ),
    "wms2_prediction_error_ratio": Meaning(
        "How far measurements lie from predictions, the mean of the same rounds", ("figure", "predicted_by")
    ),
    "wms2_outputs": Meaning("Output datasets by status", ("status",)),
    "wms2_output_blocks": Meaning("Blocks of output datasets by status", ("status",)),
    "wms2_sites": Meaning("Sites by the operators' word", ("status",)),
    "wms2_sites_banned": Meaning("Sites that are banned, for all or for single requests", ("scope",)),
    "wms2_digests": Meaning("Digests of notifications by state", ("state",)),
}
"""From one look at the database."""

ADMISSION: Mapping[str, Meaning] = {
    "wms2_admission_up": Meaning(
        "1 when admission answered; without it no slots are lent, and none of it is told"
    ),
    "wms2_admission_queue_depth": Meaning("Requests that wait for a slot"),
    "wms2_admission_slots_lent": Meaning("Slots that are lent"),
    "wms2_admission_slots_limit": Meaning("How many may be lent at once"),
    "wms2_admission_draining": Meaning("1 while nothing more is lent because an operator said so"),
    "wms2_admission_idle_jobs_budget": Meaning("How many idle jobs all slots share"),
    "wms2_admission_idle_jobs_lent": Meaning("How many of them are shared out"),
    "wms2_host_dagmans_free": Meaning("DAGMan processes that a submit host has room for", ("host",)),
}
"""From the admission workflow, which a worker must be alive to answer for."""

WORKER: Mapping[str, Meaning] = {
    "wms2_alerts_total": Meaning("Alerts that this worker raised", ("kind",)),
    "wms2_credential_end_timestamp_seconds": Meaning(
        "When a credential of jobs on this host is over; 0 for one that cannot be used",
        ("host", "credential"),
    ),
}
"""From a worker itself, beside those of the SDK."""
