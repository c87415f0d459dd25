create or replace function londiste.copy_step_waits(
    i_queue_name text, i_table_name text, i_step text, i_waits text
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Records what an unfinished step of a copy waits for; NULL: it does not wait.
 */
begin
    update londiste.copy_step s
    set waits = i_waits
    where s.queue_name = i_queue_name
        and s.table_name = i_table_name
        and s.step = i_step
        and s.seconds is null
        and s.waits is distinct from i_waits;
end;
$$;
