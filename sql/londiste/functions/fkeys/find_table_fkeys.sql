create or replace function londiste.find_table_fkeys(i_table_name text)
returns setof londiste.pending_fkeys
language sql
stable
strict
set search_path = pg_catalog, pg_temp
as $$
    /*
     * Returns all foreign keys from or to a table, each with the statement that creates it.
     *
     * Keys that a partition inherits are excluded: they are created and dropped with the parent's key.
     */
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
        and londiste.find_table_oid(i_table_name) in (c.conrelid, c.confrelid)
    order by 1, 2, 3;
$$;
