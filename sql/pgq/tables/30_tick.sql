-- Ticks: points at which it was recorded which transactions are finished.
create table pgq.tick (
    tick_queue int4 not null,
    tick_id int8 not null,
    tick_time timestamptz not null default pg_catalog.now(),
    -- The old type, not pg_snapshot: programs and dumps of Skytools expect it.
    tick_snapshot txid_snapshot not null default pg_catalog.txid_current_snapshot(),
    tick_event_seq int8 not null,
    constraint tick_pkey primary key (tick_queue, tick_id),
    constraint tick_queue_fkey foreign key (tick_queue) references pgq.queue (queue_id)
);

comment on table pgq.tick is 'moments between which batches lie';
comment on column pgq.tick.tick_queue is 'queue_id of the queue';
comment on column pgq.tick.tick_id is 'number of the tick, growing, with gaps';
comment on column pgq.tick.tick_time is 'when it was made (for a branch: on the root)';
comment on column pgq.tick.tick_snapshot is 'transactions that were finished then';
comment on column pgq.tick.tick_event_seq
is 'last value of the event sequence then: no event of the tick has a higher id';
