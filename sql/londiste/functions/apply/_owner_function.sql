create or replace function londiste._owner_function(i_owner oid)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the function that runs a statement as the given role; the first call creates it.
 *
 * It is a security definer function of that role.  In such a function PostgreSQL refuses SET ROLE and
 * SET SESSION AUTHORIZATION.  So the called code cannot return to the role of the session.  With a
 * plain SET LOCAL ROLE any trigger could do so by RESET ROLE.
 *
 * The role owns the function and could change it.  So it is in schema londiste_apply, which only the
 * schema's owner may use: without USAGE no other role can name the function.  Raises LD200 when the
 * schema belongs to an untrusted role or has been granted to one.
 */
declare
    v_name text := 'write_as_' || i_owner;
    v_found text := format('londiste_apply.%I', v_name);
begin
    if not exists (
        select from pg_proc p
        join pg_namespace n on n.oid = p.pronamespace
        where n.nspname = 'londiste_apply' and p.proname = v_name and p.proowner = i_owner
            and p.prosecdef)
    then
        -- Several sessions may need it at once.
        perform londiste._lock_owner_functions();
        if not exists (select from pg_namespace where nspname = 'londiste_apply') then
            create schema londiste_apply;
            perform pgq._revoke_defaults('schema'::text, 'londiste_apply'::text);
            comment on schema londiste_apply is
                'functions by which workers of Londiste write as the owners of tables';
        end if;
        perform londiste._owner_schema_closed();
        execute format('drop function if exists londiste_apply.%I(text, text, boolean)', v_name);
        execute format(
            'create function londiste_apply.%I(i_statement text, i_data text, i_answer boolean)'
            ' returns text[] language plpgsql security definer'
            ' set search_path = pg_catalog, pg_temp as %L',
            v_name,
            'declare v_answer text[]; v_count bigint;'
            ' begin'
            ' if i_answer then execute i_statement into v_answer using i_data; return v_answer;'
            ' elsif i_data is null then execute i_statement;'
            ' else execute i_statement using i_data; end if;'
            ' get diagnostics v_count = row_count;'
            ' return array[v_count::text]; end;');
        execute format(
            'revoke all on function londiste_apply.%I(text, text, boolean) from public', v_name);
        perform pgq._revoke_defaults('function'::text,
            format('londiste_apply.%I(text, text, boolean)', v_name));
        execute format('grant execute on function londiste_apply.%I(text, text, boolean) to %I',
            v_name, current_user);
        if (select rolsuper from pg_roles where rolname = current_user) then
            execute format('alter function londiste_apply.%I(text, text, boolean) owner to %s',
                v_name, i_owner::regrole);
        else
            execute format('grant create on schema londiste_apply to %s', i_owner::regrole);
            execute format('alter function londiste_apply.%I(text, text, boolean) owner to %s',
                v_name, i_owner::regrole);
            execute format('revoke create on schema londiste_apply from %s', i_owner::regrole);
        end if;
    else
        perform londiste._owner_schema_closed();
    end if;
    return v_found;
end;
$$;
