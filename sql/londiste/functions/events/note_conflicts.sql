create or replace function londiste.note_conflicts(i_queue_name text, i_conflicts json, i_keep int8)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Counts the conflicts that policies of tables resolved, in the transaction of the batch.
 *
 * For policy log the function also stores the rows.
 *
 * i_conflicts -- a list of objects with table, kind, policy, event, row_nr, message, op, image, here.
 * i_keep -- maximum number of stored rows per table; the newest rows stay.
 */
begin
    insert into londiste.apply_conflict as c
        (queue_name, table_name, kind, policy, times, last_event)
    select i_queue_name, n."table", n.kind, n.policy, count(*), max(n.event)
    from json_to_recordset(i_conflicts) as n ("table" text, kind text, policy text, event int8)
    group by n."table", n.kind, n.policy
    order by n."table", n.kind, n.policy
    on conflict (queue_name, table_name, kind, policy) do update
    set times = c.times + excluded.times,
        last_seen = excluded.last_seen,
        last_event = excluded.last_event;

    insert into londiste.apply_log
        (queue_name, table_name, event_id, row_nr, kind, message, op, row_image, here_row)
    select i_queue_name, n."table", n.event, n.row_nr, n.kind, n.message, n.op, n.image, n.here
    from rows from (json_to_recordset(i_conflicts) as (
            "table" text, kind text, policy text, event int8, row_nr int4, message text, op text,
            image text, here text)) with ordinality
        as n ("table", kind, policy, event, row_nr, message, op, image, here, place)
    where n.policy = 'log'
    order by n.place;

    if found then
        delete from londiste.apply_log l
        using (
            select t."table", (
                select k.log_id
                from londiste.apply_log k
                where k.queue_name = i_queue_name and k.table_name = t."table"
                order by k.log_id desc
                offset i_keep limit 1) as last_id
            from (
                select distinct n."table"
                from json_to_recordset(i_conflicts) as n ("table" text, policy text)
                where n.policy = 'log') as t) as o
        where l.queue_name = i_queue_name
            and l.table_name = o."table"
            and l.log_id <= o.last_id;
    end if;
end;
$$;
