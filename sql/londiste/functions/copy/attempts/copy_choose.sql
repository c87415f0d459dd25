create or replace function londiste.copy_choose(
    i_queue_name text, i_table_name text, i_mode text, i_reason text, i_refused bool default false
)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Stores the copy mode of a table, and why it was chosen.
 *
 * i_mode -- snapshot or resumable.
 * i_refused -- true: a resumable copy has turned out to be impossible.  This is stored until the
 *     table has to be copied again.  Default: false.
 */
begin
    insert into londiste.copy_choice as c (queue_name, table_name, mode, reason, refused)
    values (i_queue_name, i_table_name, i_mode, i_reason, i_refused)
    on conflict (queue_name, table_name) do update
    set mode = excluded.mode,
        reason = excluded.reason,
        refused = excluded.refused;
end;
$$;
