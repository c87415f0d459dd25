create or replace function londiste.periodic_maintenance()
returns int4
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Runs the periodic maintenance of the schema londiste.  Always returns 0: no further call is due.
 *
 * It deletes records of scripts that ran more than three months ago.  It recreates captures whose
 * tables have changed, where that locks no table.  It records partitions whose rows changed without
 * an event, and replicated tables that DDL has rewritten.
 */
begin
    delete from londiste.applied_execute
    where execute_time < now() - interval '3 months';
    delete from londiste.script_state
    where finished_at < now() - interval '3 months'
        and state in ('done', 'skipped', 'marked');
    perform londiste._renew_captures();
    begin
        perform londiste._watch_partitions(false);
    exception when others then
        -- For example, another session has locked a partition; the next maintenance checks again.
        raise warning 'partitions of captured tables: %', sqlerrm;
    end;
    perform londiste._note_versions(false);
    return 0;
end;
$$;
