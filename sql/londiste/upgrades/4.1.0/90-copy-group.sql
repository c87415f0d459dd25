-- Small tables that are copied together.
create table if not exists londiste.copy_member (
    queue_name text not null,
    table_name text not null,
    consumer_name text not null,
    constraint copy_member_pkey primary key (queue_name, table_name)
);

comment on table londiste.copy_member is
    'Small tables that were copied together and catch up together, by one consumer';
comment on column londiste.copy_member.queue_name is 'Queue of the replicated table';
comment on column londiste.copy_member.table_name is 'Name of the table in the queue';
comment on column londiste.copy_member.consumer_name is
    'The consumer that replays these tables; they share its position';
