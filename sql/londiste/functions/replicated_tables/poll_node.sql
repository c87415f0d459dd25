create or replace function londiste.poll_node(
    i_queue_name text,
    i_consumer_name text,
    i_version text,
    out state json,
    out hold json,
    out version text,
    out tables json)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns what a worker needs before each batch, in one call.
 *
 * i_version -- the version that the caller got last; NULL at first.
 *
 * state -- the result of pgq_node.get_worker_state().
 * hold -- the result of pgq_node.get_consumer_hold().
 * version, tables -- the result of get_table_list() as an array, and its version.  tables is NULL if
 *     the version is i_version.
 *
 * Its queries are few and simple: the role of a worker discards all plans of the session, so they
 * are planned again for each batch.
 */
begin
    state := to_json(pgq_node.get_worker_state(i_queue_name));
    hold := to_json(pgq_node.get_consumer_hold(i_queue_name, i_consumer_name));
    -- Every committed change of a registration alters it, in whatever order commits come; those of all
    -- queues, since copy_role depends on them.
    select count(*) || ' ' || coalesce(sum(hashtextextended(t.ctid::text || ' ' || t.xmin::text, 0)), 0)
        into version
    from londiste.table_info t;
    if version is distinct from i_version then
        -- Tables that are newer than the version come once more.
        select coalesce(json_agg(l), '[]') into tables
        from londiste.get_table_list(i_queue_name) l;
    end if;
end;
$$;
