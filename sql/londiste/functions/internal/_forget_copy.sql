create or replace function londiste._forget_copy()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Clears an earlier copy when in-copy is written into a table's state, which requests a new copy.
 *
 * No process resumes the earlier copy, and the copy mode is chosen again.  The number of the attempt
 * stays, so that the trigger waits for no task.  With the table its steps are deleted.
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
    if tg_op = 'DELETE' then
        -- No foreign key deletes anything for the replica role.
        delete from londiste.copy_step s
        where s.queue_name = old.queue_name
            and s.table_name = old.table_name;
    end if;
    return null;
end;
$$;
