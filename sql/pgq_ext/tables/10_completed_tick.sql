-- Positions: the tick up to which a consumer has applied everything.
create table pgq_ext.completed_tick (
    consumer_id text not null,
    subconsumer_id text not null,
    last_tick_id int8 not null,
    -- Grows with every move, so that the index leads to the newest row and past the versions
    -- that an old snapshot keeps: see docs/design/positions.md.
    move_nr int8 not null,
    constraint completed_tick_pkey primary key (consumer_id, subconsumer_id, move_nr)
);

comment on table pgq_ext.completed_tick is 'tick up to which a consumer has applied everything';
comment on column pgq_ext.completed_tick.consumer_id is 'name of the consumer';
comment on column pgq_ext.completed_tick.subconsumer_id is 'name of its worker; empty for none';
comment on column pgq_ext.completed_tick.last_tick_id is 'tick of the queue, in its own database';
comment on column pgq_ext.completed_tick.move_nr is 'grows with every move';
