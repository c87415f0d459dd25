-- Producers insert events for later, once per key, and many at a time.
-- The number of events became an argument; its file makes the function anew.
drop function if exists pgq._count_event(int4, text, int4);

create table if not exists pgq.delayed_event (
    ev_send_at timestamptz not null,
    -- No foreign key: it would lock the row of the queue, which rotation needs, until the
    -- producer commits.
    ev_queue int4 not null,
    ev_id int8 not null,
    ev_inserted timestamptz not null default pg_catalog.now(),
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    constraint delayed_event_pkey primary key (ev_queue, ev_id)
);

create index if not exists delayed_event_due_idx on pgq.delayed_event (ev_queue, ev_send_at, ev_id);

comment on table pgq.delayed_event is 'events to be delivered later';
comment on column pgq.delayed_event.ev_send_at is 'not before this time';
comment on column pgq.delayed_event.ev_queue is 'queue_id of the queue';
comment on column pgq.delayed_event.ev_id is 'number of the event, kept';
comment on column pgq.delayed_event.ev_inserted is 'when its producer inserted it';
comment on column pgq.delayed_event.ev_type is 'as in the event';
comment on column pgq.delayed_event.ev_data is 'as in the event';
comment on column pgq.delayed_event.ev_extra1 is 'as in the event';
comment on column pgq.delayed_event.ev_extra2 is 'as in the event';
comment on column pgq.delayed_event.ev_extra3 is 'as in the event';
comment on column pgq.delayed_event.ev_extra4 is 'as in the event';

create table if not exists pgq.event_key (
    -- No foreign key: it would lock the row of the queue, which rotation needs, until the
    -- producer commits.
    key_queue int4 not null,
    key_value text collate "C" not null,
    key_event_id int8 not null,
    key_time timestamptz not null default pg_catalog.now(),
    constraint event_key_pkey primary key (key_queue, key_value)
);

create index if not exists event_key_time_idx on pgq.event_key (key_queue, key_time);

comment on table pgq.event_key is 'keys of events that must not be inserted twice';
comment on column pgq.event_key.key_queue is 'queue_id of the queue';
comment on column pgq.event_key.key_value is 'what the producer calls the event';
comment on column pgq.event_key.key_event_id is 'number of the event';
comment on column pgq.event_key.key_time is 'when it was inserted';
