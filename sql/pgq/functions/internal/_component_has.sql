create or replace function pgq._component_has(i_name text)
returns boolean
language sql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns whether another component is installed, by a table or function of it.
 *
 * Where it is not, any role that may create schemas in the database could make one of that name, whose
 * views and functions would have the rights of the caller.  So the owners of the schema and of the
 * object must have the rights of the owner of pgq.
 *
 * i_name -- schema and name; of a function with the types of its arguments.
 */
select exists (
    select
    from (
        select c.relowner as owner, c.relnamespace as place
        from pg_class c
        where c.oid = case when position('(' in i_name) = 0 then to_regclass(i_name) end
        union all
        select p.proowner, p.pronamespace
        from pg_proc p
        where p.oid = case when position('(' in i_name) > 0 then to_regprocedure(i_name) end
    ) f
    join pg_namespace n on n.oid = f.place
    join pg_class q on q.oid = 'pgq.queue'::regclass
    where pg_has_role(f.owner, q.relowner, 'usage') and pg_has_role(n.nspowner, q.relowner, 'usage'));
$$;
