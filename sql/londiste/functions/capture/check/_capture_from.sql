create or replace function londiste._capture_from(i_relid oid)
returns text
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the captured table as a FROM item.
 *
 * A partitioned table comes with its partitions.  Any other comes without the tables that inherit
 * from it, because their changes are not its changes.
 */
begin
    return (
        select case c.relkind when 'p' then '' else 'only ' end || c.oid::regclass
        from pg_class as c
        where c.oid = i_relid);
end;
$$;
