create or replace function londiste._capture_cascades(i_relid oid)
returns bool
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Whether a change of the table can change rows of it again through foreign keys: one to itself, or
 * a chain through other tables, with ON DELETE or ON UPDATE actions that write.
 */
with recursive written (relid) as (
    select k.conrelid
    from pg_constraint as k
    where k.contype = 'f'
        and k.confrelid = i_relid
        and (k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd'))
    union
    select k.conrelid
    from written as w
        join pg_constraint as k on k.confrelid = w.relid
    where k.contype = 'f'
        and (k.confdeltype in ('c', 'n', 'd') or k.confupdtype in ('c', 'n', 'd')))
select exists (select from written where relid = i_relid);
$$;
