create or replace function pgq._trigger_options(
    i_args text[],
    i_op text,
    i_when text,
    out queue_name text,
    out skip bool,
    out backup bool,
    out deny bool,
    out ignored text[],
    out key_columns text[],
    out condition text,
    out fields text[],
    out path text)
language plpgsql
immutable
as $$
/*
 * Returns the checked arguments of a change-log trigger.
 *
 * key_columns, condition and path are NULL when not given; key_columns contains the texts between the
 * commas.  fields holds six expressions or NULLs: for ev_type, ev_data, ev_extra1 ... ev_extra4.
 *
 * No search_path of its own: _log_change(), which calls it, has pinned one.
 */
declare
    v_arg text;
    v_name text;
    v_value text;
    v_names constant text[] := '{ev_type,ev_data,ev_extra1,ev_extra2,ev_extra3,ev_extra4}';
    v_rowwise bool := false;
begin
    if coalesce(i_args[0], '') = '' then
        raise exception using
            errcode = 'LD005',
            message = 'pgq trigger needs the queue name as its first argument',
            hint = 'write: ... execute function pgq.logutriga(''queue'')';
    end if;
    queue_name := i_args[0];
    skip := false;
    backup := false;
    deny := false;
    ignored := '{}';
    fields := array_fill(null::text, array[6]);
    for v_pos in 1 .. array_upper(i_args, 1) loop
        v_arg := i_args[v_pos];
        v_name := split_part(v_arg, '=', 1);
        v_value := substr(v_arg, length(v_name) + 2);
        if v_arg = 'SKIP' then
            skip := true;
        elsif v_arg = 'deny' then
            deny := true;
        elsif v_arg = 'backup' then
            backup := true;
            v_rowwise := true;
        elsif v_arg = v_name then
            v_name := null;
        elsif v_name = 'ignore' then
            ignored := pgq._column_list(string_to_array(v_value, ','), null::pg_catalog.text[]);
            v_rowwise := true;
        elsif v_name = 'pkey' then
            key_columns := string_to_array(v_value, ',');
            v_rowwise := true;
        elsif v_name = 'when' then
            condition := v_value;
            v_rowwise := true;
        elsif v_name = 'search_path' then
            path := pgq._checked_path(v_value);
            v_rowwise := true;
        elsif v_name = any (v_names) then
            fields[array_position(v_names, v_name)] := v_value;
            v_rowwise := true;
        else
            v_name := null;
        end if;
        if v_name is null then
            raise exception using
                errcode = 'LD005',
                message = 'bad param to pgq trigger',
                detail = format('argument %s is %L', v_pos + 1, v_arg),
                hint = 'known are SKIP, backup, deny, ignore=, pkey=, when=, ev_type=, ev_data=,'
                    ' ev_extra1= to ev_extra4= and search_path=';
        end if;
    end loop;
    if i_op = 'TRUNCATE' and v_rowwise then
        raise exception using
            errcode = 'LD005',
            message = 'bad param to pgq trigger',
            detail = 'TRUNCATE has no row: backup, ignore=, pkey=, when= and ev_*= mean nothing',
            hint = 'omit them in the AFTER TRUNCATE trigger';
    end if;
    if skip and i_when = 'AFTER' then
        raise exception using
            errcode = 'LD005',
            message = 'SKIP does not work in AFTER trigger.',
            detail = 'only a BEFORE trigger can suppress the change of the row',
            hint = 'create the trigger BEFORE, or leave SKIP out';
    end if;
end;
$$;
