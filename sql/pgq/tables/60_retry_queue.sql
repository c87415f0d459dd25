-- Events that a consumer has scheduled for a retry.  maint_retry_events() moves them back.
create table pgq.retry_queue (
    ev_retry_after timestamptz not null,
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
    constraint rq_pkey primary key (ev_owner, ev_id),
    constraint rq_queue_id_fkey foreign key (ev_queue) references pgq.queue (queue_id)
);

create index rq_retry_idx on pgq.retry_queue (ev_retry_after);

comment on table pgq.retry_queue is 'events to be delivered again';
comment on column pgq.retry_queue.ev_retry_after is 'not before this time';
comment on column pgq.retry_queue.ev_queue is 'queue_id of the queue';
comment on column pgq.retry_queue.ev_id is 'number of the event, kept';
comment on column pgq.retry_queue.ev_time is 'when it was inserted first, kept';
comment on column pgq.retry_queue.ev_txid is 'not used; a moved event gets the mover''s';
comment on column pgq.retry_queue.ev_owner is 'subscription (sub_id) that wants it again';
comment on column pgq.retry_queue.ev_retry is 'how often it was asked for, this time included';
comment on column pgq.retry_queue.ev_type is 'as in the event';
comment on column pgq.retry_queue.ev_data is 'as in the event';
comment on column pgq.retry_queue.ev_extra1 is 'as in the event';
comment on column pgq.retry_queue.ev_extra2 is 'as in the event';
comment on column pgq.retry_queue.ev_extra3 is 'as in the event';
comment on column pgq.retry_queue.ev_extra4 is 'as in the event';
