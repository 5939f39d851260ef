"""The ground: requests, the ledger, DAGs, outputs, sites and the audit trail."""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

REQUESTS = """
CREATE TABLE requests (
    id UUID DEFAULT gen_random_uuid() NOT NULL,
    request_no BIGINT GENERATED ALWAYS AS IDENTITY,
    request_name VARCHAR(255) NOT NULL,
    requestor VARCHAR(200) NOT NULL,
    requestor_dn VARCHAR(500),
    request_data JSONB DEFAULT '{}'::jsonb NOT NULL,
    payload_config JSONB DEFAULT '{}'::jsonb NOT NULL,
    splitting_params JSONB DEFAULT '{}'::jsonb NOT NULL,
    input_dataset VARCHAR(500),
    campaign VARCHAR(200) NOT NULL,
    priority INTEGER DEFAULT 100000 NOT NULL,
    urgent BOOLEAN DEFAULT false NOT NULL,
    status VARCHAR(50) DEFAULT 'new' NOT NULL,
    status_sequence BIGINT DEFAULT 0 NOT NULL,
    status_reason TEXT DEFAULT '' NOT NULL,
    status_transitions JSONB DEFAULT '[]'::jsonb NOT NULL,
    previous_version_request VARCHAR(255),
    superseded_by_request VARCHAR(255),
    cleanup_policy VARCHAR(50) DEFAULT 'keep_until_replaced' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT requests_pkey PRIMARY KEY (id),
    CONSTRAINT requests_status_check CHECK (status IN ('new', 'submitted', 'queued', 'pilot_running',
        'planning', 'active', 'partial', 'held', 'stopping', 'resubmitting', 'completed', 'failed',
        'aborted')),
    CONSTRAINT requests_cleanup_policy_check CHECK (cleanup_policy IN ('keep_until_replaced',
        'immediate_cleanup')),
    CONSTRAINT requests_request_no_key UNIQUE (request_no),
    CONSTRAINT requests_request_name_key UNIQUE (request_name),
    CONSTRAINT requests_previous_version_request_fkey FOREIGN KEY(previous_version_request) REFERENCES
        requests (request_name)
);
CREATE INDEX idx_requests_campaign ON requests (campaign);
CREATE INDEX idx_requests_non_terminal ON requests (status)
    WHERE status NOT IN ('completed', 'failed', 'aborted');
CREATE INDEX idx_requests_priority ON requests (priority);
CREATE INDEX idx_requests_status ON requests (status);
CREATE INDEX idx_requests_version_link ON requests (previous_version_request)
    WHERE previous_version_request IS NOT NULL;
CREATE TABLE workflows (
    id UUID DEFAULT gen_random_uuid() NOT NULL,
    request_name VARCHAR(255) NOT NULL,
    input_dataset VARCHAR(500),
    splitting_algo VARCHAR(50) NOT NULL,
    splitting_params JSONB DEFAULT '{}'::jsonb NOT NULL,
    sandbox_url TEXT,
    config_data JSONB DEFAULT '{}'::jsonb NOT NULL,
    pilot_metrics JSONB,
    next_first_event BIGINT DEFAULT 1 NOT NULL,
    category_throttles JSONB DEFAULT '{}'::jsonb NOT NULL,
    total_nodes BIGINT DEFAULT 0 NOT NULL,
    nodes_done BIGINT DEFAULT 0 NOT NULL,
    nodes_failed BIGINT DEFAULT 0 NOT NULL,
    nodes_queued BIGINT DEFAULT 0 NOT NULL,
    nodes_running BIGINT DEFAULT 0 NOT NULL,
    status VARCHAR(50) DEFAULT 'new' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT workflows_pkey PRIMARY KEY (id),
    CONSTRAINT workflows_status_check CHECK (status IN ('new', 'submitted', 'queued', 'pilot_running',
        'planning', 'active', 'partial', 'held', 'stopping', 'resubmitting', 'completed', 'failed',
        'aborted')),
    CONSTRAINT workflows_splitting_algo_check CHECK (splitting_algo IN ('FileBased', 'EventBased',
        'LumiBased', 'EventAwareLumiBased')),
    CONSTRAINT workflows_request_name_fkey FOREIGN KEY(request_name) REFERENCES requests (request_name)
);
CREATE UNIQUE INDEX idx_workflows_request ON workflows (request_name);
CREATE INDEX idx_workflows_status ON workflows (status);
CREATE TABLE audit_trail (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    action_id VARCHAR(200) NOT NULL,
    actor VARCHAR(200) NOT NULL,
    action VARCHAR(100) NOT NULL,
    request_name VARCHAR(255),
    reason TEXT NOT NULL,
    detail JSONB DEFAULT '{}'::jsonb NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT audit_trail_pkey PRIMARY KEY (id),
    CONSTRAINT audit_trail_action_id_key UNIQUE (action_id)
);
CREATE INDEX idx_audit_trail_created ON audit_trail (created_at);
CREATE INDEX idx_audit_trail_request ON audit_trail (request_name, created_at);
"""

LEDGER = """
CREATE TABLE rounds (
    request_no BIGINT NOT NULL,
    number INTEGER NOT NULL,
    kind VARCHAR(50) NOT NULL,
    status VARCHAR(50) DEFAULT 'planned' NOT NULL,
    snapshot_digest VARCHAR(64) NOT NULL,
    work_units INTEGER NOT NULL,
    nodes BIGINT NOT NULL,
    planned_events BIGINT NOT NULL,
    planned_files BIGINT NOT NULL,
    first_event BIGINT,
    last_event BIGINT,
    submit_host VARCHAR(255),
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    closed_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT rounds_pkey PRIMARY KEY (request_no, number),
    CONSTRAINT rounds_kind_check CHECK (kind IN ('pilot', 'production')),
    CONSTRAINT rounds_status_check CHECK (status IN ('planned', 'active', 'completed', 'closed')),
    CONSTRAINT rounds_pilot_first_check CHECK (kind <> 'pilot' OR number = 0),
    CONSTRAINT rounds_request_no_fkey FOREIGN KEY(request_no) REFERENCES requests (request_no)
);
CREATE UNIQUE INDEX idx_rounds_one_open ON rounds (request_no) WHERE status IN ('planned', 'active');
CREATE TABLE work_units (
    request_no BIGINT NOT NULL,
    number INTEGER NOT NULL,
    round INTEGER NOT NULL,
    status VARCHAR(50) DEFAULT 'planned' NOT NULL,
    reason TEXT DEFAULT '' NOT NULL,
    events INT8RANGE,
    planned_events BIGINT NOT NULL,
    processed_events BIGINT,
    produced_events BIGINT,
    planned_files INTEGER NOT NULL,
    site VARCHAR(100),
    output_digest VARCHAR(64),
    credited_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT work_units_pkey PRIMARY KEY (request_no, number),
    CONSTRAINT work_units_request_no_round_fkey FOREIGN KEY(request_no, round) REFERENCES rounds
        (request_no, number),
    CONSTRAINT work_units_status_check CHECK (status IN ('planned', 'produced', 'abandoned')),
    CONSTRAINT work_units_events_check CHECK (NOT isempty(events) AND NOT lower_inf(events) AND NOT
        upper_inf(events) AND lower(events) >= 1 AND upper(events) - lower(events) = planned_events),
    CONSTRAINT work_units_processed_events_check CHECK (processed_events >= 0 AND (events IS NULL OR
        processed_events <= planned_events)),
    CONSTRAINT work_units_produced_events_check CHECK (produced_events >= 0),
    CONSTRAINT work_units_credited_check CHECK ((status = 'produced') = (num_nonnulls(site, output_digest,
        credited_at, processed_events, produced_events) = 5)),
    CONSTRAINT work_units_reason_check CHECK (status <> 'abandoned' OR reason <> ''),
    CONSTRAINT work_units_no_event_twice EXCLUDE USING gist (int8range(request_no, request_no, '[]') WITH
        &&, events WITH &&)
);
CREATE INDEX idx_work_units_round ON work_units (request_no, round, status);
CREATE TABLE input_files (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    request_no BIGINT NOT NULL,
    lfn VARCHAR(500) NOT NULL,
    state VARCHAR(50) DEFAULT 'available' NOT NULL,
    events BIGINT NOT NULL,
    size_bytes BIGINT NOT NULL,
    work_unit INTEGER,
    reason TEXT DEFAULT '' NOT NULL,
    CONSTRAINT input_files_pkey PRIMARY KEY (id),
    CONSTRAINT input_files_request_no_lfn_key UNIQUE (request_no, lfn),
    CONSTRAINT input_files_request_no_work_unit_fkey FOREIGN KEY(request_no, work_unit) REFERENCES
        work_units (request_no, number),
    CONSTRAINT input_files_state_check CHECK (state IN ('available', 'planned', 'attempted', 'processed',
        'excluded', 'dropped')),
    CONSTRAINT input_files_reason_check CHECK (state NOT IN ('excluded', 'dropped') OR reason <> ''),
    CONSTRAINT input_files_work_unit_check CHECK (state NOT IN ('planned', 'processed') OR work_unit IS NOT
        NULL),
    CONSTRAINT input_files_request_no_fkey FOREIGN KEY(request_no) REFERENCES requests (request_no)
);
CREATE INDEX idx_input_files_state ON input_files (request_no, state);
CREATE INDEX idx_input_files_work_unit ON input_files (request_no, work_unit);
"""

DAGS = """
CREATE TABLE dags (
    id UUID DEFAULT gen_random_uuid() NOT NULL,
    dag_id VARCHAR(300) NOT NULL,
    workflow_id UUID NOT NULL,
    request_no BIGINT NOT NULL,
    round INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    dag_file_path TEXT NOT NULL,
    submit_dir TEXT NOT NULL,
    submit_host VARCHAR(255),
    rescue_dag_path TEXT,
    dagman_cluster_id BIGINT,
    schedd_name VARCHAR(255),
    parent_dag_id UUID,
    stop_requested_at TIMESTAMP WITH TIME ZONE,
    stop_reason TEXT,
    total_nodes BIGINT NOT NULL,
    total_edges BIGINT DEFAULT 0 NOT NULL,
    node_counts JSONB DEFAULT '{}'::jsonb NOT NULL,
    nodes_idle BIGINT DEFAULT 0 NOT NULL,
    nodes_running BIGINT DEFAULT 0 NOT NULL,
    nodes_done BIGINT DEFAULT 0 NOT NULL,
    nodes_failed BIGINT DEFAULT 0 NOT NULL,
    nodes_held BIGINT DEFAULT 0 NOT NULL,
    status VARCHAR(50) DEFAULT 'ready' NOT NULL,
    intent_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    submitted_at TIMESTAMP WITH TIME ZONE,
    completed_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT dags_pkey PRIMARY KEY (id),
    CONSTRAINT dags_request_no_round_fkey FOREIGN KEY(request_no, round) REFERENCES rounds (request_no,
        number),
    CONSTRAINT dags_request_no_round_attempt_key UNIQUE (request_no, round, attempt),
    CONSTRAINT dags_status_check CHECK (status IN ('planning', 'ready', 'submitted', 'running',
        'completed', 'partial', 'failed', 'removed', 'halted', 'stopped')),
    CONSTRAINT dags_submitted_check CHECK (num_nulls(dagman_cluster_id, schedd_name, submitted_at) IN (0,
        3)),
    CONSTRAINT dags_dag_id_key UNIQUE (dag_id),
    CONSTRAINT dags_workflow_id_fkey FOREIGN KEY(workflow_id) REFERENCES workflows (id),
    CONSTRAINT dags_parent_dag_id_fkey FOREIGN KEY(parent_dag_id) REFERENCES dags (id)
);
CREATE INDEX idx_dags_parent ON dags (parent_dag_id) WHERE parent_dag_id IS NOT NULL;
CREATE INDEX idx_dags_schedd ON dags (schedd_name) WHERE dagman_cluster_id IS NOT NULL;
CREATE INDEX idx_dags_status ON dags (status);
CREATE INDEX idx_dags_workflow ON dags (workflow_id);
CREATE TABLE dag_history (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    dag_id UUID NOT NULL,
    event_type VARCHAR(50) NOT NULL,
    from_status VARCHAR(50),
    to_status VARCHAR(50),
    nodes_idle BIGINT DEFAULT 0 NOT NULL,
    nodes_running BIGINT DEFAULT 0 NOT NULL,
    nodes_done BIGINT DEFAULT 0 NOT NULL,
    nodes_failed BIGINT DEFAULT 0 NOT NULL,
    nodes_held BIGINT DEFAULT 0 NOT NULL,
    detail JSONB DEFAULT '{}'::jsonb NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT dag_history_pkey PRIMARY KEY (id),
    CONSTRAINT dag_history_dag_id_fkey FOREIGN KEY(dag_id) REFERENCES dags (id)
);
CREATE INDEX idx_dag_history_dag ON dag_history (dag_id);
"""

OUTPUTS = """
CREATE TABLE output_datasets (
    id UUID DEFAULT gen_random_uuid() NOT NULL,
    workflow_id UUID NOT NULL,
    dataset_name VARCHAR(500) NOT NULL,
    status VARCHAR(50) DEFAULT 'pending' NOT NULL,
    transfer_destinations JSONB DEFAULT '[]'::jsonb NOT NULL,
    announced_at TIMESTAMP WITH TIME ZONE,
    invalidated BOOLEAN DEFAULT false NOT NULL,
    invalidated_at TIMESTAMP WITH TIME ZONE,
    invalidation_reason TEXT,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT output_datasets_pkey PRIMARY KEY (id),
    CONSTRAINT output_datasets_status_check CHECK (status IN ('pending', 'dbs_registered',
        'source_protected', 'transfers_requested', 'transferring', 'transferred', 'source_released',
        'announced', 'invalidated', 'failed')),
    CONSTRAINT output_datasets_workflow_id_fkey FOREIGN KEY(workflow_id) REFERENCES workflows (id)
);
CREATE INDEX idx_output_datasets_status ON output_datasets (status);
CREATE UNIQUE INDEX idx_output_datasets_workflow ON output_datasets (workflow_id, dataset_name);
CREATE TABLE output_blocks (
    id UUID DEFAULT gen_random_uuid() NOT NULL,
    output_dataset_id UUID NOT NULL,
    block_name VARCHAR(700) NOT NULL,
    source_site VARCHAR(100) NOT NULL,
    status VARCHAR(50) DEFAULT 'open' NOT NULL,
    files BIGINT DEFAULT 0 NOT NULL,
    events BIGINT DEFAULT 0 NOT NULL,
    size_bytes BIGINT DEFAULT 0 NOT NULL,
    dbs_registered_at TIMESTAMP WITH TIME ZONE,
    source_rule_id VARCHAR(100),
    source_protected BOOLEAN DEFAULT false NOT NULL,
    transfer_rule_ids JSONB DEFAULT '[]'::jsonb NOT NULL,
    transfers_complete_at TIMESTAMP WITH TIME ZONE,
    last_transfer_check TIMESTAMP WITH TIME ZONE,
    source_released BOOLEAN DEFAULT false NOT NULL,
    dbs_invalidated BOOLEAN DEFAULT false NOT NULL,
    rucio_rules_deleted BOOLEAN DEFAULT false NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    closed_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT output_blocks_pkey PRIMARY KEY (id),
    CONSTRAINT output_blocks_status_check CHECK (status IN ('open', 'closed', 'archived', 'invalidated')),
    CONSTRAINT output_blocks_output_dataset_id_fkey FOREIGN KEY(output_dataset_id) REFERENCES
        output_datasets (id),
    CONSTRAINT output_blocks_block_name_key UNIQUE (block_name)
);
CREATE INDEX idx_output_blocks_dataset ON output_blocks (output_dataset_id, status);
CREATE TABLE output_files (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    lfn VARCHAR(500) NOT NULL,
    output_dataset_id UUID NOT NULL,
    block_id UUID,
    request_no BIGINT NOT NULL,
    work_unit INTEGER NOT NULL,
    site VARCHAR(100) NOT NULL,
    size_bytes BIGINT NOT NULL,
    events BIGINT NOT NULL,
    adler32 VARCHAR(8) NOT NULL,
    lumis JSONB DEFAULT '[]'::jsonb NOT NULL,
    parents JSONB DEFAULT '[]'::jsonb NOT NULL,
    status VARCHAR(50) DEFAULT 'pending' NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT output_files_pkey PRIMARY KEY (id),
    CONSTRAINT output_files_request_no_work_unit_fkey FOREIGN KEY(request_no, work_unit) REFERENCES
        work_units (request_no, number),
    CONSTRAINT output_files_status_check CHECK (status IN ('pending', 'registered', 'invalidated')),
    CONSTRAINT output_files_lfn_key UNIQUE (lfn),
    CONSTRAINT output_files_output_dataset_id_fkey FOREIGN KEY(output_dataset_id) REFERENCES
        output_datasets (id),
    CONSTRAINT output_files_block_id_fkey FOREIGN KEY(block_id) REFERENCES output_blocks (id)
);
CREATE INDEX idx_output_files_block ON output_files (block_id);
CREATE INDEX idx_output_files_dataset ON output_files (output_dataset_id, status);
CREATE INDEX idx_output_files_work_unit ON output_files (request_no, work_unit);
"""

SITES = """
CREATE TABLE sites (
    name VARCHAR(100) NOT NULL,
    total_slots INTEGER,
    running_slots INTEGER DEFAULT 0 NOT NULL,
    pending_slots INTEGER DEFAULT 0 NOT NULL,
    status VARCHAR(50) DEFAULT 'enabled' NOT NULL,
    drain_until TIMESTAMP WITH TIME ZONE,
    thresholds JSONB DEFAULT '{}'::jsonb NOT NULL,
    schedd_name VARCHAR(255),
    collector_host VARCHAR(255),
    storage_element VARCHAR(255),
    storage_path TEXT,
    config_data JSONB DEFAULT '{}'::jsonb NOT NULL,
    updated_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    CONSTRAINT sites_pkey PRIMARY KEY (name),
    CONSTRAINT sites_status_check CHECK (status IN ('enabled', 'disabled', 'draining', 'maintenance'))
);
CREATE TABLE site_bans (
    id UUID DEFAULT gen_random_uuid() NOT NULL,
    site_name VARCHAR(100) NOT NULL,
    workflow_id UUID,
    reason TEXT NOT NULL,
    failure_data JSONB DEFAULT '{}'::jsonb NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE DEFAULT now() NOT NULL,
    expires_at TIMESTAMP WITH TIME ZONE NOT NULL,
    removed_at TIMESTAMP WITH TIME ZONE,
    removed_by VARCHAR(200),
    CONSTRAINT site_bans_pkey PRIMARY KEY (id),
    CONSTRAINT site_bans_site_name_fkey FOREIGN KEY(site_name) REFERENCES sites (name),
    CONSTRAINT site_bans_workflow_id_fkey FOREIGN KEY(workflow_id) REFERENCES workflows (id)
);
CREATE INDEX idx_site_bans_active ON site_bans (site_name, expires_at) WHERE removed_at IS NULL;
CREATE INDEX idx_site_bans_workflow ON site_bans (workflow_id)
    WHERE workflow_id IS NOT NULL AND removed_at IS NULL;
CREATE TABLE submit_hosts (
    name VARCHAR(255) NOT NULL,
    schedd_name VARCHAR(255) NOT NULL,
    submit_root TEXT NOT NULL,
    max_dagmans INTEGER NOT NULL,
    status VARCHAR(50) DEFAULT 'enabled' NOT NULL,
    last_seen_at TIMESTAMP WITH TIME ZONE,
    CONSTRAINT submit_hosts_pkey PRIMARY KEY (name),
    CONSTRAINT submit_hosts_status_check CHECK (status IN ('enabled', 'draining', 'lost'))
);
"""

TABLES = """
requests workflows audit_trail rounds work_units input_files dags dag_history output_datasets output_blocks
output_files sites site_bans submit_hosts
""".split()  # noqa: SIM905


def upgrade() -> None:
    for statements in (REQUESTS, LEDGER, DAGS, OUTPUTS, SITES):
        op.execute(statements)


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)
