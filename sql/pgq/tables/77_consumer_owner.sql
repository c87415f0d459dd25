-- Owners of consumers: only they and administrators unregister or move them.
create table pgq.consumer_owner (
    own_queue int4 not null,
    own_consumer int4 not null,
    own_role name not null,
    own_exclusive boolean not null default false,
    constraint own_pkey primary key (own_queue, own_consumer),
    constraint own_queue_fkey foreign key (own_queue)
    references pgq.queue (queue_id) on delete cascade,
    constraint own_consumer_fkey foreign key (own_consumer)
    references pgq.consumer (co_id) on delete cascade
);

comment on table pgq.consumer_owner is 'roles that consumers belong to';
comment on column pgq.consumer_owner.own_queue is 'queue_id of the queue';
comment on column pgq.consumer_owner.own_consumer is 'co_id of the consumer';
comment on column pgq.consumer_owner.own_role is 'role that registered it';
comment on column pgq.consumer_owner.own_exclusive
is 'a node of a cascade reads with it: nobody else takes its batches, even if an administrator registered it';
