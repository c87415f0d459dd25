-- Consumers that ever had a row in the other tables.  A session locks it to insert their first row.
create table pgq_ext.mover (
    consumer_id text not null,
    subconsumer_id text not null,
    first_nr int8 not null,
    constraint mover_pkey primary key (consumer_id, subconsumer_id)
);

comment on table pgq_ext.mover is 'consumers that ever had a row in the other tables';
comment on column pgq_ext.mover.consumer_id is 'name of the consumer';
comment on column pgq_ext.mover.subconsumer_id is 'name of its worker; empty for none';
comment on column pgq_ext.mover.first_nr is 'number that its newest first row began with';
