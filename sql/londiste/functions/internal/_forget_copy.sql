create or replace function londiste._forget_copy()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whoever writes in-copy into a table's state wants a new copy, whatever an old one has brought:
 * nobody goes on with that, and the way is chosen anew.
 *
 * The number of the attempt stays, so that this waits for no task.
 */
begin
    update londiste.copy_attempt a
    set resumes = false
    where a.queue_name = old.queue_name
        and a.table_name = old.table_name
        and a.resumes;
    delete from londiste.copy_choice c
    where c.queue_name = old.queue_name
        and c.table_name = old.table_name;
    return null;
end;
$$;
