create or replace function londiste._capture_cascades(i_relid oid)
returns bool
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether foreign keys with ON DELETE or ON UPDATE actions write to the table.
 *
 * Their changes join the rows of the outer query.  The server then runs the statement triggers once
 * more at the end and forgets their positions before.  So a DELETE is captured after an INSERT that
 * came later.
 */
begin
    return (
        select exists (
            select from pg_constraint as k
            where k.contype = 'f'
                and k.conrelid = i_relid
                and (k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd'))));
end;
$$;
