create or replace function pgq_ext.lock_sink(
    a_sink text,
    a_target text,
    out query_id text,
    out epoch int8,
    out row_count int8,
    out target text
)
returns record
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Locks a sink until the transaction ends, and returns what it has written last.
 *
 * All columns are null when it has written nothing.  Call it first in the transaction that writes
 * an epoch.  A second transaction with the same name waits here, and then sees the first one's
 * epoch.
 */
begin
    perform pgq_ext._require_values(a_sink, a_target);
    insert into pgq_ext.sink (sink_id, target) values (a_sink, a_target)
    on conflict on constraint sink_pkey do nothing;
    select s.query_id, s.epoch, s.row_count, s.target
    into query_id, epoch, row_count, target
    from pgq_ext.sink s
    where s.sink_id = a_sink
    for update;
end;
$$;
