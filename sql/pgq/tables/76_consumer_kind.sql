-- Kinds of consuming programs, as they report them: a stream of Spark, a lake, a mover.
create table pgq.consumer_kind (
    ck_queue int4 not null,
    ck_consumer int4 not null,
    ck_kind text not null,
    constraint ck_pkey primary key (ck_queue, ck_consumer),
    constraint ck_queue_fkey foreign key (ck_queue)
    references pgq.queue (queue_id) on delete cascade,
    constraint ck_consumer_fkey foreign key (ck_consumer)
    references pgq.consumer (co_id) on delete cascade
);

comment on table pgq.consumer_kind is 'what kind of program a consumer is, in its own words';
comment on column pgq.consumer_kind.ck_queue is 'queue_id of the queue';
comment on column pgq.consumer_kind.ck_consumer is 'co_id of the consumer';
comment on column pgq.consumer_kind.ck_kind is 'stream, lake, dispatch, mover, splitter';
