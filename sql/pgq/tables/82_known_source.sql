-- What consumers with their position in this database know about the queue they read.
create table pgq.known_source (
    ks_queue text not null,
    ks_consumer text not null,
    ks_source text not null,
    ks_generation uuid not null,
    ks_registration int4 not null,
    ks_tick int8 not null,
    ks_tick_time timestamptz not null,
    constraint known_source_pkey primary key (ks_queue, ks_consumer)
);

comment on table pgq.known_source
is 'queues elsewhere, as consumers of this database knew them last; see londiste/pgq/position_check.py';
comment on column pgq.known_source.ks_queue is 'name of the queue';
comment on column pgq.known_source.ks_consumer is 'name the consumer is registered with there';
comment on column pgq.known_source.ks_source is 'where: the provider node, or any name';
comment on column pgq.known_source.ks_generation is 'generation of the queue there';
comment on column pgq.known_source.ks_registration
is 'number of the registration there (sub_id): another one when it was registered anew';
comment on column pgq.known_source.ks_tick is 'tick up to which everything is in this database';
comment on column pgq.known_source.ks_tick_time
is 'when that tick was made: another tick of the same number has another time';
