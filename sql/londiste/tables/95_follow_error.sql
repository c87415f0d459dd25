-- Tables and sequences that a node could not add automatically.
create table londiste.follow_error (
    queue_name text not null,
    object_name text not null,
    message text not null,
    first_seen timestamptz not null default now(),
    constraint follow_error_pkey primary key (queue_name, object_name),
    constraint follow_error_queue_fkey foreign key (queue_name)
        references pgq_node.node_info (queue_name) on delete cascade
);

comment on table londiste.follow_error is
    'Tables and sequences that the settings of a node follow and that could not be added';
comment on column londiste.follow_error.queue_name is 'Queue that knows of it';
comment on column londiste.follow_error.object_name is 'Its name in the queue';
comment on column londiste.follow_error.message is 'Why not, and what helps';
comment on column londiste.follow_error.first_seen is 'Since when for this reason';
