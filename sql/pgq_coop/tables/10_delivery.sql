-- Batches whose events are delivered and settled one by one.
create table pgq_coop.delivery (
    batch_id int8 not null,
    content_id int8 not null,
    receiver text,
    handed_id int8,
    constraint delivery_pkey primary key (batch_id),
    constraint delivery_content_uq unique (content_id)
);

comment on table pgq_coop.delivery is 'open batches that receive() hands out';
comment on column pgq_coop.delivery.batch_id
is 'the open batch; another id after another worker has taken it over';
comment on column pgq_coop.delivery.content_id
is 'key of its events in delivery_event: the id of the batch when it was opened';
comment on column pgq_coop.delivery.receiver
is 'session, or worker as it calls itself, that handed_id is about; null for nobody yet';
comment on column pgq_coop.delivery.handed_id
is 'last event that this receiver got; null for none';
