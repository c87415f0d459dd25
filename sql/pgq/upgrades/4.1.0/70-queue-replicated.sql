-- A queue whose events other databases apply takes those from administrators only.
alter table pgq.queue
add column if not exists queue_replicated boolean not null default false;

comment on column pgq.queue.queue_replicated
is 'the queue is a node of a cascade: only administrators may write events that replication applies';

-- Functions that run with the rights of the owner write to what these columns name.
do $$
begin
    if not exists (
        select from pg_catalog.pg_constraint
        where conrelid = 'pgq.queue'::regclass and conname = 'queue_relations_check')
    then
        alter table pgq.queue add constraint queue_relations_check check (
            queue_data_pfx ~ '^pgq[.]event_[0-9]+$'
            and queue_event_seq = queue_data_pfx || '_id_seq'
            and queue_tick_seq = queue_data_pfx || '_tick_seq'
        );
    end if;
end;
$$;
