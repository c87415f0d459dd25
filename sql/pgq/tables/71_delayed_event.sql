-- Delayed events.  maint_retry_events() moves them into their queues.
create table pgq.delayed_event (
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

create index delayed_event_due_idx on pgq.delayed_event (ev_queue, ev_send_at, ev_id);

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
