-- Events of the newest applied batch that were not processed and go back to the queue.
create table pgq_ext.returned_event (
    consumer_id text not null,
    subconsumer_id text not null,
    batch_id int8 not null,
    event_id int8 not null,
    retry_seconds int4,
    max_attempts int4,
    reason text,
    constraint returned_event_pkey primary key (consumer_id, subconsumer_id, batch_id, event_id)
);

comment on table pgq_ext.returned_event
is 'events of the newest applied batch that go back to the queue, again or as dead letters';
comment on column pgq_ext.returned_event.consumer_id is 'name of the consumer';
comment on column pgq_ext.returned_event.subconsumer_id is 'name of its worker; empty for none';
comment on column pgq_ext.returned_event.batch_id is 'batch of the event';
comment on column pgq_ext.returned_event.event_id is 'id of the event';
comment on column pgq_ext.returned_event.retry_seconds
is 'deliver it again after this time; null for a dead letter';
comment on column pgq_ext.returned_event.max_attempts
is 'deliveries after which it is a dead letter; null for no limit';
comment on column pgq_ext.returned_event.reason is 'why it was not processed';
