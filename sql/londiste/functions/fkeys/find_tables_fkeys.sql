create or replace function londiste.find_tables_fkeys(i_table_names text[])
returns setof londiste.pending_fkeys
language sql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /*
     * Returns the rows of find_table_fkeys() for several tables, with one scan of the catalog.
     */
    with wanted as materialized (
        select londiste.find_table_oid(t.name) as oid
        from unnest(i_table_names) as t (name)
    )
    select nf.nspname || '.' || cf.relname,
           nt.nspname || '.' || ct.relname,
           c.conname::text,
           format('ALTER TABLE %s%I.%I ADD CONSTRAINT %I %s',
                  case cf.relkind when 'p' then '' else 'ONLY ' end, nf.nspname, cf.relname, c.conname, pg_get_constraintdef(c.oid))
    from pg_constraint c
        join pg_class cf on cf.oid = c.conrelid
        join pg_namespace nf on nf.oid = cf.relnamespace
        join pg_class ct on ct.oid = c.confrelid
        join pg_namespace nt on nt.oid = ct.relnamespace
    where c.contype = 'f'
        and c.conparentid = 0
        and (c.conrelid in (select w.oid from wanted w)
            or c.confrelid in (select w.oid from wanted w))
    order by 1, 2, 3;
$$;
