create or replace function londiste.copy_resume(i_queue_name text)
returns bool
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Resumes the copies of a queue.  Returns false when they were not paused.
 */
begin
    update londiste.copy_control c
    set paused = false,
        break_off = false,
        changed_at = now()
    where c.queue_name = i_queue_name
        and c.paused;
    return found;
end;
$$;
