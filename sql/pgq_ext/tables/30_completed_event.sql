-- Events of an unfinished batch that a consumer has processed one by one.
create table pgq_ext.completed_event (
    consumer_id text not null,
    subconsumer_id text not null,
    batch_id int8 not null,
    event_id int8 not null,
    constraint completed_event_pkey primary key (consumer_id, subconsumer_id, batch_id, event_id)
);

comment on table pgq_ext.completed_event is 'events of an unfinished batch that are dealt with';
comment on column pgq_ext.completed_event.consumer_id is 'name of the consumer';
comment on column pgq_ext.completed_event.subconsumer_id is 'name of its worker; empty for none';
comment on column pgq_ext.completed_event.batch_id is 'batch of the event';
comment on column pgq_ext.completed_event.event_id is 'event that is dealt with';
