-- The columns of every event table.  All of them inherit from here, so that reading this table
-- reads the events of all queues.
create table pgq.event_template (
    ev_id int8 not null,
    ev_time timestamptz not null,
    ev_txid int8 not null default pg_catalog.txid_current(),
    ev_owner int4,
    ev_retry int4,
    ev_type text,
    ev_data text,
    ev_extra1 text,
    ev_extra2 text,
    ev_extra3 text,
    ev_extra4 text
);

-- Without a key a publication of all tables would refuse updates and deletes.
alter table pgq.event_template replica identity full;

comment on table pgq.event_template is 'parent of all event tables';
comment on column pgq.event_template.ev_id is 'number of the event in its queue';
comment on column pgq.event_template.ev_time is 'when it was inserted';
comment on column pgq.event_template.ev_txid is 'transaction that inserted it';
comment on column pgq.event_template.ev_owner
is 'subscription that asked for it again; null when it is for everybody';
comment on column pgq.event_template.ev_retry is 'how often it was asked for again; null if never';
comment on column pgq.event_template.ev_type is 'what kind of event it is';
comment on column pgq.event_template.ev_data is 'what happened';
comment on column pgq.event_template.ev_extra1 is 'more about it; the table for captured changes';
comment on column pgq.event_template.ev_extra2 is 'more about it';
comment on column pgq.event_template.ev_extra3 is 'more about it';
comment on column pgq.event_template.ev_extra4 is 'more about it';
