-- Paused consumers; their programs check this table before each batch.
create table pgq.paused_consumer (
    pc_queue int4 not null,
    pc_consumer int4 not null,
    pc_since timestamptz not null default pg_catalog.now(),
    pc_reason text,
    constraint pc_pkey primary key (pc_queue, pc_consumer),
    constraint pc_queue_fkey foreign key (pc_queue)
    references pgq.queue (queue_id) on delete cascade,
    constraint pc_consumer_fkey foreign key (pc_consumer)
    references pgq.consumer (co_id) on delete cascade
);

comment on table pgq.paused_consumer is 'consumers that are to take no batch until resumed';
comment on column pgq.paused_consumer.pc_queue is 'queue_id of the queue';
comment on column pgq.paused_consumer.pc_consumer is 'co_id of the consumer';
comment on column pgq.paused_consumer.pc_since is 'when it was paused';
comment on column pgq.paused_consumer.pc_reason is 'why, in the words of who did it';
