-- The events of these batches that are not settled yet.  A copy: event tables have no index on
-- ids, and each search in them would cost as much as the whole batch.
create table pgq_coop.delivery_event (
    content_id int8 not null,
    ev_id int8 not null,
    ev_time timestamptz not null,
    ev_txid int8 not null,
    ev_retry int4,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text,
    constraint delivery_event_pkey primary key (content_id, ev_id)
);

comment on table pgq_coop.delivery_event
is 'events of the batches in delivery that are neither acknowledged nor put back';
comment on column pgq_coop.delivery_event.content_id is 'batch, as in delivery';
comment on column pgq_coop.delivery_event.ev_id is 'number of the event in its queue';
comment on column pgq_coop.delivery_event.ev_time is 'as in the event';
comment on column pgq_coop.delivery_event.ev_txid is 'as in the event';
comment on column pgq_coop.delivery_event.ev_retry is 'as in the event';
comment on column pgq_coop.delivery_event.ev_type is 'as in the event';
comment on column pgq_coop.delivery_event.ev_data is 'as in the event';
comment on column pgq_coop.delivery_event.ev_extra1 is 'as in the event';
comment on column pgq_coop.delivery_event.ev_extra2 is 'as in the event';
comment on column pgq_coop.delivery_event.ev_extra3 is 'as in the event';
comment on column pgq_coop.delivery_event.ev_extra4 is 'as in the event';
