-- A queue whose events other databases apply takes those from administrators only.
alter table pgq.queue
add column if not exists queue_replicated boolean not null default false;

comment on column pgq.queue.queue_replicated
is 'the queue is a node of a cascade: only administrators may write events that replication applies';

-- Nobody would read an event in the parent of a queue's tables.
do $$
declare
    v_parent regclass;
begin
    for v_parent in select to_regclass(q.queue_data_pfx) from pgq.queue as q loop
        continue when v_parent is null or exists (
            select from pg_catalog.pg_constraint
            where conrelid = v_parent and conname = 'no_events');
        execute format('alter table %s add constraint no_events check (false) no inherit not valid',
            v_parent);
    end loop;
end;
$$;

-- Functions that run with the rights of the owner write to what these columns name.
do $$
begin
    if not exists (
        select from pg_catalog.pg_constraint
        where conrelid = 'pgq.queue'::regclass and conname = 'queue_relations_check')
    then
        alter table pgq.queue add constraint queue_relations_check check (
            queue_data_pfx ~ '^pgq\.event_[0-9]+$'
            and queue_event_seq = queue_data_pfx || '_id_seq'
            and queue_tick_seq = queue_data_pfx || '_tick_seq'
        );
    end if;
end;
$$;
