-- Dead letters: failed events of consumers, kept until an operator retries or deletes them.
create table pgq.failed_queue (
    ev_failed_reason text,
    ev_failed_time timestamptz not null default pg_catalog.now(),
    ev_queue int4 not null,
    ev_id int8 not null,
    ev_time timestamptz not null,
    ev_txid int8,
    ev_owner int4 not null,
    ev_retry int4,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    constraint fq_pkey primary key (ev_owner, ev_id),
    constraint fq_queue_id_fkey foreign key (ev_queue) references pgq.queue (queue_id)
);

comment on table pgq.failed_queue is 'events that consumers gave up on';
comment on column pgq.failed_queue.ev_failed_reason is 'why, in the words of the consumer';
comment on column pgq.failed_queue.ev_failed_time is 'when the consumer gave up';
comment on column pgq.failed_queue.ev_queue is 'queue_id of the queue';
comment on column pgq.failed_queue.ev_id is 'number of the event, kept';
comment on column pgq.failed_queue.ev_time is 'when it was inserted first, kept';
comment on column pgq.failed_queue.ev_txid is 'transaction that inserted it when it failed';
comment on column pgq.failed_queue.ev_owner is 'subscription (sub_id) that gave up';
comment on column pgq.failed_queue.ev_retry
is 'how often it had been asked for again; null if never';
comment on column pgq.failed_queue.ev_type is 'as in the event';
comment on column pgq.failed_queue.ev_data is 'as in the event';
comment on column pgq.failed_queue.ev_extra1 is 'as in the event';
comment on column pgq.failed_queue.ev_extra2 is 'as in the event';
comment on column pgq.failed_queue.ev_extra3 is 'as in the event';
comment on column pgq.failed_queue.ev_extra4 is 'as in the event';
