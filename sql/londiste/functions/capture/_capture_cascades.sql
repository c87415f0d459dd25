create or replace function londiste._capture_cascades(i_relid oid)
returns bool
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether foreign keys with ON DELETE or ON UPDATE actions write to the table: what they change joins the
 * rows of the outer query.
 *
 * The server then runs the statement triggers once more at the end and forgets their places before, so
 * a DELETE is told behind an INSERT that came after it.
 */
select exists (
    select from pg_constraint as k
    where k.contype = 'f'
        and k.conrelid = i_relid
        and (k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd')));
$$;
