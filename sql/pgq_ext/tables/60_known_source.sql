-- The queue of a position, to distinguish it from another queue with the same numbers.
create table pgq_ext.known_source (
    consumer_id text not null,
    subconsumer_id text not null,
    queue_name text not null,
    generation uuid,
    registration int4,
    tick_id int8 not null,
    tick_time timestamptz not null,
    -- Grows with every move, so that the index leads to the newest row and past the versions
    -- that an old snapshot keeps: see docs/design/positions.md.
    move_nr int8 not null,
    constraint known_source_pkey primary key (consumer_id, subconsumer_id, move_nr)
);

comment on table pgq_ext.known_source
is 'the queues that positions belong to, as they were known last';
comment on column pgq_ext.known_source.consumer_id is 'name of the consumer';
comment on column pgq_ext.known_source.subconsumer_id is 'name of its worker; empty for none';
comment on column pgq_ext.known_source.queue_name is 'name of the queue, in its own database';
comment on column pgq_ext.known_source.generation
is 'generation of the queue: another one when it was made anew; null for not compared';
comment on column pgq_ext.known_source.registration
is 'number of the registration (sub_id): another one when it was registered anew';
comment on column pgq_ext.known_source.tick_id is 'tick up to which everything is applied';
comment on column pgq_ext.known_source.tick_time
is 'when that tick was made: another tick of the same number has another time';
comment on column pgq_ext.known_source.move_nr is 'grows with every move';
