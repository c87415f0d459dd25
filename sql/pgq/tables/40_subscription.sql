-- Registrations: which consumer reads which queue.  The position tables contain what changes with
-- every batch; the view pgq.subscription joins both.
create sequence pgq.batch_id_seq;

comment on sequence pgq.batch_id_seq is 'ids of the batches of all queues';

create sequence pgq.subscription_sub_id_seq as int4;
create sequence pgq.subscription_sub_key_seq;

-- Names begin with subscription, as that was the name of a table until version 4.0.
create table pgq.registration (
    -- Not unique: cooperative consumers share the number of their main consumer.
    sub_id int4 default nextval('pgq.subscription_sub_id_seq')
        constraint subscription_sub_id_not_null not null,
    sub_queue int4 constraint subscription_sub_queue_not_null not null,
    sub_consumer int4 constraint subscription_sub_consumer_not_null not null,
    sub_last_tick int8,
    sub_active timestamptz default pg_catalog.now()
        constraint subscription_sub_active_not_null not null,
    sub_batch int8,
    sub_next_tick int8,
    sub_key int8 default nextval('pgq.subscription_sub_key_seq')
        constraint subscription_sub_key_not_null not null,
    sub_generation int8 default 0 constraint subscription_sub_generation_not_null not null,
    sub_nr int8 default 0 constraint subscription_sub_nr_not_null not null,
    constraint subscription_pkey primary key (sub_queue, sub_consumer),
    constraint subscription_batch_idx unique (sub_batch),
    constraint sub_queue_fkey foreign key (sub_queue) references pgq.queue (queue_id),
    constraint sub_consumer_fkey foreign key (sub_consumer) references pgq.consumer (co_id),
    constraint subscription_key_uq unique (sub_key)
);

alter sequence pgq.subscription_sub_id_seq owned by pgq.registration.sub_id;
alter sequence pgq.subscription_sub_key_seq owned by pgq.registration.sub_key;

comment on table pgq.registration
is 'consumers of queues, and where they stood when their positions moved to another table';
comment on column pgq.registration.sub_id
is 'number of the subscription, owner of its retried events; shared by cooperative consumers';
comment on column pgq.registration.sub_queue is 'queue_id of the queue';
comment on column pgq.registration.sub_consumer is 'co_id of the consumer';
comment on column pgq.registration.sub_last_tick
is 'position number sub_nr: tick up to which everything is finished';
comment on column pgq.registration.sub_active
is 'position number sub_nr: when a batch was last opened or finished';
comment on column pgq.registration.sub_batch is 'position number sub_nr: open batch';
comment on column pgq.registration.sub_next_tick
is 'position number sub_nr: tick at which the open batch ends';
comment on column pgq.registration.sub_key is 'number of the registration, never used again';
comment on column pgq.registration.sub_generation
is 'generation of the position table that has later positions than sub_nr';
comment on column pgq.registration.sub_nr is 'number of the position in this row';
