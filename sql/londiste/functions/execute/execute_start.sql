create or replace function londiste.execute_start(
    i_queue_name text,
    i_file_name text,
    i_sql text,
    i_expect_root boolean,
    i_attrs text,
    i_other_queues boolean,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Registers that a script runs on this node.
 *
 * The caller then runs the script in the same transaction and calls execute_finish().
 *
 * i_attrs -- url-encoded conditions, NULL for none; the caller has checked them.
 * i_other_queues -- true: below the root, a script with the same name and text from another queue
 *     counts as run already; false: the caller knows that it has other tables or rows there.
 *
 * ret_code -- 200 run the script; 201 do not run it, it has run already; 401 the root is expected,
 *     and this node is not the root; 404 this database is no node of the queue.
 */
declare
    v_root boolean;
    v_came_before boolean;
    v_table text;
begin
    select n.node_type = 'root' into v_root
    from pgq_node.node_info n
    where n.queue_name = i_queue_name;
    if not found then
        select 404, 'Set not found: ' || coalesce(i_queue_name, 'NULL') into ret_code, ret_note;
        return;
    end if;
    if i_expect_root and not v_root then
        select 401, 'Node is not root node: ' || i_queue_name into ret_code, ret_note;
        return;
    end if;

    -- Queues that are merged on this node deliver the same script more than once.
    v_came_before := not v_root and i_other_queues and exists (
        select from londiste.applied_execute a
        where a.execute_file = i_file_name
            and a.queue_name <> i_queue_name
            and a.execute_sql = i_sql
            and not pgq_node.is_root_node(a.queue_name));

    insert into londiste.applied_execute (queue_name, execute_file, execute_sql, execute_attrs)
    values (i_queue_name, i_file_name, i_sql, i_attrs)
    on conflict do nothing;
    if v_came_before or not found then
        select 201, format('EXECUTE: "%s" already applied, skipping', i_file_name)
            into ret_code, ret_note;
        return;
    end if;
    -- Earlier changes of other sessions are no change of this script.  From here until its end they wait.
    for v_table in
        select format('%I.%I', n.nspname, c.relname)
        from londiste._named_tables(i_queue_name, i_sql) as t (relid)
            join pg_class c on c.oid = t.relid
            join pg_namespace n on n.oid = c.relnamespace
        where has_table_privilege(c.oid, 'select')
        order by c.oid
    loop
        execute format('lock table only %s in access share mode', v_table);
    end loop;
    perform londiste._note_versions(false);
    -- A script outside of a transaction has changed them itself by now.
    if not exists (
        select from londiste.script_state s
        where s.queue_name = i_queue_name and s.execute_file = i_file_name and s.way = 'after')
    then
        begin
            perform londiste._watch_partitions(false);
        exception when others then
            raise warning 'partitions of captured tables: %', sqlerrm;
        end;
    end if;
    select 200, format('Executing: %s', i_file_name) into ret_code, ret_note;
end;
$$;

create or replace function londiste.execute_start(
    i_queue_name text,
    i_file_name text,
    i_sql text,
    i_expect_root boolean,
    i_attrs text,
    out ret_code int4,
    out ret_note text)
returns record
language sql
set search_path = pg_catalog, pg_temp
as $$
    /*
     * Registers that a script runs on this node.
     *
     * Below the root, a script with the same name and text from another queue counts as run already.
     */
    select s.ret_code, s.ret_note
    from londiste.execute_start(i_queue_name, i_file_name, i_sql, i_expect_root, i_attrs, true) s;
$$;

create or replace function londiste.execute_start(
    i_queue_name text,
    i_file_name text,
    i_sql text,
    i_expect_root boolean,
    out ret_code int4,
    out ret_note text)
returns record
language sql
set search_path = pg_catalog, pg_temp
as $$
    /* Registers that a script without conditions runs on this node. */
    select s.ret_code, s.ret_note
    from londiste.execute_start(i_queue_name, i_file_name, i_sql, i_expect_root, null::text) s;
$$;
