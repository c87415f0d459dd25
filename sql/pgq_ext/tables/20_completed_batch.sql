-- The last batch that a consumer has applied.
create table pgq_ext.completed_batch (
    consumer_id text not null,
    subconsumer_id text not null,
    last_batch_id int8 not null,
    -- Grows with every move, so that the index leads to the newest row and past the versions
    -- that an old snapshot keeps: see docs/design/positions.md.
    move_nr int8 not null,
    constraint completed_batch_pkey primary key (consumer_id, subconsumer_id, move_nr)
);

comment on table pgq_ext.completed_batch is 'last batch that a consumer has applied';
comment on column pgq_ext.completed_batch.consumer_id is 'name of the consumer';
comment on column pgq_ext.completed_batch.subconsumer_id is 'name of its worker; empty for none';
comment on column pgq_ext.completed_batch.last_batch_id is 'batch, as its own database numbers it';
comment on column pgq_ext.completed_batch.move_nr is 'grows with every move';
