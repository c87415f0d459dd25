create or replace function londiste._capture_direct(i_queue_name text, i_args text[], i_owner oid)
returns bool
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether the function of a capture may write into the event tables directly.
 *
 * It may when it runs as an owner who may insert there, and the queue shows by a sequence which
 * table takes events (_capture_way).  Otherwise it calls pgq.insert_event().
 */
begin
    return (
        select num_nulls((o.options).condition) = 1
            and num_nonnulls(variadic (o.options).extras) = 0
            and has_sequence_privilege(i_owner, q.queue_event_seq, 'usage')
            and coalesce(
                has_sequence_privilege(i_owner, to_regclass(pgq._way_seq(q))::oid, 'select'), false)
            and (
                select bool_and(has_table_privilege(i_owner, pgq.quote_fqname(t.name), 'insert'))
                from pgq._event_tables(q) as t (name))
        from pgq.queue as q
            cross join lateral (select londiste._capture_options(i_args[3:])) as o (options)
        where q.queue_name = i_queue_name);
end;
$$;
