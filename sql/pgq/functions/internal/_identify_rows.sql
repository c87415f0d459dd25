create or replace function pgq._identify_rows(i_table text)
returns void
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Gives an event table a replica identity: its rows can change though a publication contains it.
 *
 * i_table -- the quoted name.
 *
 * Event tables have no key.  Of a table in a publication of all tables PostgreSQL would refuse updates
 * and deletes.  The function is called when the table is created.  For tables of an older release
 * rotation calls it, which has the table locked, and so does what changes rows.  The role need not own the
 * table, so the function runs as the owner of the schema.  A table of another owner does not change.
 */
begin
    if exists (
        select from pg_class as c
        where c.oid = i_table::regclass
            and c.relreplident in ('d', 'n')
            and pg_has_role(c.relowner, 'usage'))
    then
        execute format('alter table %s replica identity full', i_table::regclass);
    end if;
end;
$$;
