create or replace function londiste._drop_trigger_pair(i_queue_name text, i_dest_table text)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Drops the compatible triggers of a queue with Londiste's names.  Returns their number.
 *
 * Other triggers stay; drop_capture() drops generated captures.
 */
declare
    v_name text;
    v_count int4 := 0;
begin
    for v_name in
        select t.tgname
        from pg_trigger t
            join pg_proc p on p.oid = t.tgfoid
            join pg_namespace n on n.oid = p.pronamespace
        where t.tgrelid = londiste.find_table_oid(i_dest_table)
            and t.tgconstrindid = 0
            and n.nspname = 'pgq'
            and t.tgname in (
                londiste.trigger_name(i_queue_name),
                left('zzz_' || londiste.trigger_name(i_queue_name), 63),
                londiste.trigger_name(i_queue_name, 'truncate'))
    loop
        execute format('drop trigger %I on %s', v_name, londiste.quote_fqname(i_dest_table));
        v_count := v_count + 1;
    end loop;
    return v_count;
end;
$$;
