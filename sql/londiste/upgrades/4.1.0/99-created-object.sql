-- What londiste replicate created, in a table that only record_created writes.
create table if not exists londiste.created_object (
    queue_name text not null,
    class_id oid not null,
    object_id oid not null,
    kind text not null,
    identity text not null,
    owner oid not null,
    created_by name not null,
    constraint created_object_pkey primary key (queue_name, class_id, object_id),
    constraint created_object_queue_fkey foreign key (queue_name)
        references pgq_node.node_info (queue_name) on delete cascade
);

comment on table londiste.created_object is
    'Objects that londiste replicate created in this database; written by record_created only';
comment on column londiste.created_object.queue_name is 'Queue whose node they were created for';
comment on column londiste.created_object.class_id is 'Catalog of the object';
comment on column londiste.created_object.object_id is 'Its oid in that catalog';
comment on column londiste.created_object.kind is 'As it is written after DROP';
comment on column londiste.created_object.identity is 'Quoted and qualified name when it was created';
comment on column londiste.created_object.owner is 'Its owner when it was created';
comment on column londiste.created_object.created_by is 'Role that recorded it, a member of the owner';
