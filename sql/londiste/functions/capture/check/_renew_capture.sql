create or replace function londiste._renew_capture(i_relid oid, i_function oid)
returns bool
language plpgsql
set search_path = pg_catalog, pg_temp
set plan_cache_mode = force_generic_plan
as $$
/*
 * Recreates the function of a capture.  Returns false when it must stay.
 *
 * It stays while another session recreates it, if the caller is not its owner, and if the triggers would
 * have to change, too: only refresh_capture() does that, with a lock on the table.
 */
declare
    v_table text := (
        select format('%s.%s', n.nspname, c.relname)
        from pg_class as c
            join pg_namespace as n on n.oid = c.relnamespace
        where c.oid = i_relid);
    v_args text[];
    v_form text;
    v_source text;
begin
    -- As in _lock_capture(), but without waiting.
    if not pg_try_advisory_xact_lock('londiste.table_info'::regclass::oid::int4, i_relid::int4) then
        return false;
    end if;
    select p.prosrc, londiste._trigger_args(t.tgargs)
        into v_source, v_args
    from pg_proc as p
        join pg_trigger as t on t.tgrelid = i_relid and t.tgfoid = p.oid and t.tgconstrindid = 0
    where p.oid = i_function
        and p.proowner = quote_ident(current_user)::regrole
        and p.pronamespace = 'londiste_capture'::regnamespace
        and p.proname = londiste._capture_name((londiste._trigger_args(t.tgargs))[1], v_table)
    limit 1;
    if not found then
        return false;
    end if;
    v_form := (londiste._capture_form_of(i_relid, v_args, quote_ident(current_user)::regrole)).form;
    if v_form is distinct from substring(v_source from 'Form: (row|statement)')
        -- Existing triggers have other transition tables than the function would read.
        or exists (
            select from pg_trigger as t
            where t.tgrelid = i_relid
                and t.tgfoid = i_function
                and v_form = 'statement'
                and (t.tgtype & 1 <> 0 and t.tgqual is null or t.tgtype & 16 <> 0 and t.tgoldtable is null))
    then
        return false;
    end if;
    perform londiste._install_capture(i_relid, v_table, v_args);
    return true;
end;
$$;
