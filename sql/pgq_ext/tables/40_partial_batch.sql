-- The batch whose events a consumer is processing one by one.
create table pgq_ext.partial_batch (
    consumer_id text not null,
    subconsumer_id text not null,
    cur_batch_id int8 not null,
    -- Grows with every move, so that the index leads to the newest row and past the versions
    -- that an old snapshot keeps: see docs/design/positions.md.
    move_nr int8 not null,
    constraint partial_batch_pkey primary key (consumer_id, subconsumer_id, move_nr)
);

comment on table pgq_ext.partial_batch is 'batch whose events are in completed_event';
comment on column pgq_ext.partial_batch.consumer_id is 'name of the consumer';
comment on column pgq_ext.partial_batch.subconsumer_id is 'name of its worker; empty for none';
comment on column pgq_ext.partial_batch.cur_batch_id is 'batch that is being worked on';
comment on column pgq_ext.partial_batch.move_nr is 'grows with every move';
