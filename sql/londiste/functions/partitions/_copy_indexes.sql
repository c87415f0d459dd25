create or replace function londiste._copy_indexes(i_from oid, i_to oid)
returns void
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Creates the indexes and keys of a table on its partition, with names that the server chooses.
 *
 * LIKE would create them before the partition has its owner.  Their functions run as the owner of the
 * table, whoever creates them.
 */
declare
    v_index record;
    v_head text;
begin
    for v_index in
        select pg_get_constraintdef(k.oid) as constraint, pg_get_indexdef(c.oid) as definition,
               case when x.indisunique then 'UNIQUE ' else '' end as uniqueness, c.relname
        from pg_index x
            join pg_class c on c.oid = x.indexrelid
            left join pg_constraint k on k.conindid = c.oid and k.conrelid = i_from
                and k.contype in ('p', 'u', 'x')
        where x.indrelid = i_from and x.indislive
        order by c.oid
    loop
        if v_index.constraint is not null then
            execute format('alter table %s add %s', londiste._qualified_name(i_to),
                v_index.constraint);
        else
            v_head := format('CREATE %sINDEX %I ON %s ', v_index.uniqueness, v_index.relname,
                londiste._qualified_name(i_from));
            execute format('create %sindex on %s %s', v_index.uniqueness,
                londiste._qualified_name(i_to), substr(v_index.definition, length(v_head) + 1));
        end if;
    end loop;
end;
$$;
