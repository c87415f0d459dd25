-- Keys of events that must not be inserted twice; see insert_event_once().
create table pgq.event_key (
    -- No foreign key: it would lock the row of the queue, which rotation needs, until the
    -- producer commits.
    key_queue int4 not null,
    key_value text collate "C" not null,
    key_event_id int8 not null,
    key_time timestamptz not null default pg_catalog.now(),
    constraint event_key_pkey primary key (key_queue, key_value)
);

create index event_key_time_idx on pgq.event_key (key_queue, key_time);

comment on table pgq.event_key is 'keys of events that must not be inserted twice';
comment on column pgq.event_key.key_queue is 'queue_id of the queue';
comment on column pgq.event_key.key_value is 'what the producer calls the event';
comment on column pgq.event_key.key_event_id is 'number of the event';
comment on column pgq.event_key.key_time is 'when it was inserted';
