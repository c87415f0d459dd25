create or replace function pgq._require_home()
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Raises LD201 in a database that was restored from another server and not rebased.
 *
 * Transaction ids of two servers cannot be compared.  If the ids of this server are higher, old and
 * new events would count as read.  If they are lower, new events would appear in old batches.
 */
begin
    if pgq._is_at_home() then
        return;
    end if;
    raise exception using
        errcode = 'LD201',
        message = format('database %s was restored from another server', current_database()),
        detail = 'its ticks and events hold transaction ids of that server; producers may go '
            'on, their events are delivered after the rebase',
        hint = 'once the restore is complete, in that database: londiste queue rebase, '
            'or select * from pgq.rebase_queues()';
end;
$$;
