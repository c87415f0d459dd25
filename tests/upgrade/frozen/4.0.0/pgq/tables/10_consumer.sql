-- Names of consumers, one row per name, whatever the number of queues it reads.
create table pgq.consumer (
    co_id serial not null,
    co_name text not null,
    constraint consumer_pkey primary key (co_id),
    constraint consumer_name_uq unique (co_name)
);

comment on table pgq.consumer is 'names of consumers, shared by all queues';
comment on column pgq.consumer.co_id is 'number of the consumer, never reused';
comment on column pgq.consumer.co_name is 'name it registers with';
