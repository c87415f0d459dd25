create or replace function londiste._capture_source(i_relid oid, i_args text[])
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * The body of the trigger function that captures a table; i_args are the trigger's arguments.
 *
 * A pure function of the catalog, so comparing its answer with the body in the database tells
 * whether the table has changed.  The body holds static SQL for the columns there are now;
 * should they differ when it runs, it makes the same statements anew for every row: slow, but
 * no change is lost and no writer fails until refresh_capture() is called.
 */
declare
    v_parts record := londiste._capture_parts(i_relid, i_args, 'new', 'old');
    v_guard constant text := 'perform londiste._capture_needs_key(tg_op, tg_argv[0:])';
    v_update text;
begin
    if v_parts.on_update is null then
        v_update := format('%s;', v_guard);
    else
        -- in parentheses: PL/pgSQL would end the condition at the THEN of a CASE in it
        v_update := format('if (%s) then
            perform %s;
            perform %s;
        else
            perform %s;
        end if;',
            v_parts.key_changed,
            substr(v_parts.on_delete, 8), substr(v_parts.on_insert, 8), substr(v_parts.on_update, 8));
        if v_parts.update_silent is not null then
            v_update := format('if not (%s) then
            %s
            end if;', v_parts.update_silent, v_update);
        end if;
    end if;
    return format($source$
#variable_conflict use_column
/* Made by londiste.create_capture(); to be changed by it or by londiste.refresh_capture(). */
declare
    v_parts record;
    v_yes bool;
begin
    if current_setting('session_replication_role') = 'local' then
        return null;
    elsif tg_op = 'TRUNCATE' then
        perform %1$s;
    elsif londiste._row_signature(%2$L::regclass) is distinct from %3$L
        or has_column_privilege(%2$L::regclass::oid, %4$s::int2, 'select') is not null
    then
        v_parts := londiste._capture_parts(tg_relid, tg_argv[0:], '($1)', '($2)');
        if tg_op <> 'INSERT' and v_parts.on_update is null then
            %5$s;
        elsif tg_level = 'STATEMENT' then
            execute v_parts.on_statement;
        elsif tg_op = 'INSERT' then
            execute v_parts.on_insert using new;
        elsif tg_op = 'DELETE' then
            execute v_parts.on_delete using new, old;
        else
            execute 'select ' || coalesce(v_parts.update_silent, 'false') into v_yes using new, old;
            if v_yes then
                return null;
            end if;
            execute 'select ' || v_parts.key_changed into v_yes using new, old;
            if v_yes then
                execute v_parts.on_delete using new, old;
                execute v_parts.on_insert using new;
            else
                execute v_parts.on_update using new, old;
            end if;
        end if;
    elsif tg_op = 'INSERT' then
        perform %6$s;
    elsif tg_op = 'DELETE' then
        %7$s;
    elsif tg_level = 'STATEMENT' then
        %8$s;
    else
        %9$s
    end if;
    return null;
end;
$source$,
        substr(v_parts.on_truncate, 8),
        i_relid,
        londiste._row_signature(i_relid),
        (select c.relnatts + 1 from pg_class as c where c.oid = i_relid),
        v_guard,
        substr(v_parts.on_insert, 8),
        coalesce('perform ' || substr(v_parts.on_delete, 8), v_guard),
        coalesce('perform ' || substr(v_parts.on_statement, 8), v_guard),
        v_update);
end;
$$;
