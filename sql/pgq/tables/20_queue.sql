-- Queues, and how each ticks, rotates and accepts events.
create table pgq.queue (
    queue_id serial not null,
    queue_name text not null,
    queue_ntables int4 not null default 3,
    queue_cur_table int4 not null default 0,
    queue_rotation_period interval not null default '2 hours',
    queue_switch_step1 int8 not null default pg_catalog.txid_current(),
    queue_switch_step2 int8 default pg_catalog.txid_current(),
    queue_switch_time timestamptz not null default pg_catalog.now(),
    queue_external_ticker boolean not null default false,
    queue_disable_insert boolean not null default false,
    queue_ticker_paused boolean not null default false,
    queue_ticker_max_count int4 not null default 500,
    queue_ticker_max_lag interval not null default '3 seconds',
    queue_ticker_idle_period interval not null default '1 minute',
    queue_per_tx_limit int4,
    queue_data_pfx text not null,
    queue_event_seq text not null,
    queue_tick_seq text not null,
    queue_extra_maint text[],
    queue_max_retries int4,
    queue_history_txid int8,
    queue_key_retention interval not null default '1 day',
    queue_packed_events boolean not null default true,
    queue_replicated boolean not null default false,
    queue_proven_from int8,
    constraint queue_pkey primary key (queue_id),
    constraint queue_name_uq unique (queue_name),
    -- Functions that run with the rights of the owner write to them.
    constraint queue_relations_check check (
        queue_data_pfx ~ '^pgq[.]event_[0-9]+$'
        and queue_event_seq = queue_data_pfx || '_id_seq'
        and queue_tick_seq = queue_data_pfx || '_tick_seq'
    )
);

comment on table pgq.queue is 'queues and their settings';
comment on column pgq.queue.queue_id is 'number of the queue, part of the names of its tables';
comment on column pgq.queue.queue_name is 'name of the queue';
comment on column pgq.queue.queue_ntables is 'number of event tables that rotation goes through';
comment on column pgq.queue.queue_cur_table is 'event table that takes new events, from 0';
comment on column pgq.queue.queue_rotation_period is 'shortest time between two rotations';
comment on column pgq.queue.queue_switch_step1
is 'id of the transaction that made the current table the current one';
comment on column pgq.queue.queue_switch_step2
is 'id of a later transaction, which saw that switch committed; null while there was none';
comment on column pgq.queue.queue_switch_time is 'when the current table became the current one';
comment on column pgq.queue.queue_external_ticker
is 'ticks come from another database with the events';
comment on column pgq.queue.queue_disable_insert
is 'events are refused, except in a session with session_replication_role = replica';
comment on column pgq.queue.queue_ticker_paused is 'no ticks are made';
comment on column pgq.queue.queue_ticker_max_count is 'tick when there are this many new events';
comment on column pgq.queue.queue_ticker_max_lag is 'tick when new events have waited this long';
comment on column pgq.queue.queue_ticker_idle_period
is 'longest time between ticks when there are no events';
comment on column pgq.queue.queue_per_tx_limit
is 'most events one transaction may insert; null for no limit';
comment on column pgq.queue.queue_data_pfx is 'event tables are named this, _, number';
comment on column pgq.queue.queue_event_seq is 'sequence of event ids';
comment on column pgq.queue.queue_tick_seq is 'sequence of tick ids';
comment on column pgq.queue.queue_extra_maint
is 'maintenance functions of the user, each called with the queue name';
comment on column pgq.queue.queue_max_retries
is 'an event asked for again more often fails; null for no limit';
comment on column pgq.queue.queue_history_txid
is 'events of transactions from this one on are all there still; null when none was removed';
comment on column pgq.queue.queue_key_retention
is 'shortest time for which keys of insert_event_once() are remembered';
comment on column pgq.queue.queue_packed_events
is 'one event may carry many rows; false for readers that know jsontriga only';
comment on column pgq.queue.queue_replicated
is 'the queue is a node of a cascade: only administrators may write events that replication applies';
comment on column pgq.queue.queue_proven_from
is 'control events of transactions from this one on are proven by control_event; null when they are not';
