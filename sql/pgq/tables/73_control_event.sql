-- Events that nodes obey, and that somebody entitled has written.
create table pgq.control_event (
    -- No foreign key: it would lock the row of the queue, which rotation needs, until the
    -- producer commits.
    ev_queue int4 not null,
    ev_id int8 not null,
    ev_txid int8 not null default pg_catalog.txid_current(),
    ev_type text not null
);

-- Without a key a publication of all tables would refuse updates and deletes.
alter table pgq.control_event replica identity full;

create index control_event_id_idx on pgq.control_event (ev_queue, ev_id);

comment on table pgq.control_event
is 'scripts and cascade messages that were written by an entitled role; subscribers refuse others';
comment on column pgq.control_event.ev_queue is 'queue_id of the queue';
comment on column pgq.control_event.ev_id is 'number of the event';
comment on column pgq.control_event.ev_txid is 'transaction of the event, as in its event table';
comment on column pgq.control_event.ev_type is 'as in the event';
