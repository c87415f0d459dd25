create or replace function londiste.execute_finish(
    i_queue_name text,
    i_file_name text,
    i_rows text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Completes execute_start(), in the same transaction; the root sends the script to all nodes.
 *
 * i_rows -- the rows that the script has written on this node, as JSON: a key for each table of the
 *     queue, with an array of written rows (inserted or updated), removed rows (deleted or updated),
 *     and 1 where TRUNCATE has emptied the table, 2 where it has emptied some of its partitions, 0
 *     otherwise; '{}' for none, NULL when they were not counted.  They are sent with the script, and
 *     compared on the other nodes.
 *
 * ret_code -- 200 done; 404 the script was not started, or no node of the queue.
 */
declare
    v_sql text;
    v_attrs text;
    v_root boolean;
begin
    select n.node_type = 'root' into v_root
    from pgq_node.node_info n
    where n.queue_name = i_queue_name;
    if not found then
        select 404, 'Set not found: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    select a.execute_sql, a.execute_attrs into v_sql, v_attrs
    from londiste.applied_execute a
    where a.queue_name = i_queue_name and a.execute_file = i_file_name;
    if not found then
        select 404, 'execute_file called without execute_start' into ret_code, ret_note;
        return;
    end if;
    perform londiste._note_versions(true);
    perform londiste._watch_partitions(true);
    if v_root then
        perform pgq.insert_event(i_queue_name, 'EXECUTE', v_sql, i_file_name, v_attrs, i_rows, null::text);
    end if;
    update londiste.script_state s
    set state = 'done', error = null, statement = null, finished_at = clock_timestamp()
    where s.queue_name = i_queue_name and s.execute_file = i_file_name;
    select 200, 'Execute finished: ' || i_file_name into ret_code, ret_note;
end;
$$;

create or replace function londiste.execute_finish(
    i_queue_name text,
    i_file_name text,
    out ret_code int4,
    out ret_note text)
returns record
language sql
set search_path = pg_catalog, pg_temp
as $$
    /* Completes execute_start() of a script whose rows were not counted. */
    select f.ret_code, f.ret_note
    from londiste.execute_finish(i_queue_name, i_file_name, null::text) f;
$$;
