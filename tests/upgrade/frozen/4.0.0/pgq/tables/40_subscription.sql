-- Subscriptions: how far each consumer of a queue has come.
create sequence pgq.batch_id_seq;

comment on sequence pgq.batch_id_seq is 'ids of the batches of all queues';

create table pgq.subscription (
    -- Not unique: cooperative consumers share the number of their main consumer.
    sub_id serial not null,
    sub_queue int4 not null,
    sub_consumer int4 not null,
    sub_last_tick int8,
    sub_active timestamptz not null default pg_catalog.now(),
    sub_batch int8,
    sub_next_tick int8,
    constraint subscription_pkey primary key (sub_queue, sub_consumer),
    constraint subscription_batch_idx unique (sub_batch),
    constraint sub_queue_fkey foreign key (sub_queue) references pgq.queue (queue_id),
    constraint sub_consumer_fkey foreign key (sub_consumer) references pgq.consumer (co_id)
);

comment on table pgq.subscription is 'consumers of queues and their positions';
comment on column pgq.subscription.sub_id
is 'number of the subscription, owner of its retried events; shared by cooperative consumers';
comment on column pgq.subscription.sub_queue is 'queue_id of the queue';
comment on column pgq.subscription.sub_consumer is 'co_id of the consumer';
comment on column pgq.subscription.sub_last_tick
is 'tick up to which everything is finished; null for an idle cooperative consumer';
comment on column pgq.subscription.sub_active is 'when a batch was last opened or finished';
comment on column pgq.subscription.sub_batch is 'open batch; null when there is none';
comment on column pgq.subscription.sub_next_tick is 'tick at which the open batch ends';
