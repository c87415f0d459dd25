create or replace function londiste.decide_script(
    i_queue_name text,
    i_file_name text,
    i_decision text,
    out ret_code int4,
    out ret_note text)
returns record
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores an operator's decision about a script that failed on this node or waits to run.
 *
 * i_decision -- retry: run a failed script again; skip: do not run it on this node; mark-done: it was
 *     run manually.  The root sends a script with mark-done to the other nodes, and one with skip
 *     not.
 *
 * ret_code -- 200 stored; 403 the decision does not fit the state of the script, or the script is
 *     running; 404 unknown script.
 *
 * Raises LD003 when this database is no node of the queue, LD005 for an unknown decision.
 */
declare
    v_script londiste.script_state;
    v_note text;
begin
    if i_decision is null or i_decision not in ('retry', 'skip', 'mark-done') then
        raise exception using
            errcode = 'LD005',
            message = format('unknown decision: %s', coalesce(i_decision, 'NULL')),
            hint = 'use retry, skip or mark-done';
    end if;
    perform londiste._require_node(i_queue_name);
    select * into v_script
    from londiste.script_state s
    where s.queue_name = i_queue_name and s.execute_file = i_file_name
    for update;
    if not found then
        select 404, format('No script %s that failed or waits here', coalesce(i_file_name, 'NULL'))
            into ret_code, ret_note;
        return;
    end if;
    if v_script.state not in ('failed', 'pending', 'retry', 'running') then
        select 403, format('Script %s is %s', i_file_name, v_script.state) into ret_code, ret_note;
        return;
    end if;
    if i_decision = 'retry' then
        if v_script.state <> 'failed' then
            select 403, format('Script %s has not failed, it is %s', i_file_name, v_script.state)
                into ret_code, ret_note;
            return;
        end if;
        update londiste.script_state
        set state = 'retry'
        where queue_name = i_queue_name and execute_file = i_file_name;
        select 200, format('Script %s is tried again', i_file_name) into ret_code, ret_note;
        return;
    end if;
    if v_script.state = 'running' then
        select 403, format('Script %s is running', i_file_name) into ret_code, ret_note;
        return;
    end if;

    insert into londiste.applied_execute (queue_name, execute_file, execute_sql, execute_attrs)
    values (i_queue_name, i_file_name, v_script.execute_sql, v_script.execute_attrs)
    on conflict do nothing;
    if i_decision = 'mark-done' then
        perform londiste.execute_finish(i_queue_name, i_file_name);
    end if;
    update londiste.script_state
    set state = case i_decision when 'skip' then 'skipped' else 'marked' end,
        finished_at = clock_timestamp()
    where queue_name = i_queue_name and execute_file = i_file_name;
    v_note := case i_decision
        when 'skip' then 'Script %s is not run here'
        else 'Script %s counts as done here' end;
    select 200, format(v_note, i_file_name) into ret_code, ret_note;
end;
$$;
