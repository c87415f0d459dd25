create or replace function londiste.create_partition(
    i_table text,
    i_part text,
    i_pkeys text,
    i_part_field text,
    i_part_time timestamptz,
    i_part_period text)
returns int4
language plpgsql
set search_path = pg_catalog, pg_temp
set datestyle = 'ISO, YMD'
as $$
/*
 * Creates the partition of a table for one period.  Returns 1, or 0 when it exists already.
 *
 * The partition has the parent's columns, defaults, constraints, indexes, owner, grants, rules
 * and triggers.  Each trigger and rule is enabled as on the parent.  Events of replication triggers
 * carry the parent's name.
 *
 * For a partitioned table the function creates a partition.  For another table it creates an
 * inheriting table with a check that rejects rows of other periods.
 *
 * i_pkeys -- columns of the key, separated by commas, for a parent without one; may be empty.
 * i_part_field -- the column that contains the time; empty: no check.
 * i_part_time -- any moment of the period; its bounds are those of the session's time zone.
 * i_part_period -- year, month, day or hour (or yearly, monthly, daily, hourly).
 *
 * Where the parent is written as its owner, the indexes are created when the partition has that owner,
 * and it is attached as the owner: expressions of the owner run then.
 *
 * Callers in one database wait for each other until they commit.  Raises LD004 when the parent does
 * not exist, LD005 for an unknown period and for a partitioned parent without i_part_field.
 */
declare
    v_parent_name text := londiste.make_fqname(i_table);
    v_part_name text := londiste.make_fqname(i_part);
    v_part text := londiste.quote_fqname(v_part_name);
    v_period text := londiste._partition_period(i_part_period);
    v_start timestamptz;
    v_end timestamptz;
    v_relid oid := londiste._capture_relation(v_parent_name);
    v_parent pg_class;
    v_check text := '';
    v_as_owner boolean;
begin
    if v_relid is null then
        raise exception using
            errcode = 'LD004',
            message = format('Table does not exist: %s', v_parent_name),
            hint = 'create the parent first; partitions copy its definition';
    end if;
    if to_regclass(v_part) is not null then
        return 0;
    end if;
    lock table londiste.table_info in share update exclusive mode;
    if to_regclass(v_part) is not null then
        return 0;
    end if;

    select * into v_parent from pg_class c where c.oid = v_relid;
    v_start := date_trunc(v_period, i_part_time);
    v_end := v_start + ('1 ' || v_period)::interval;
    if coalesce(i_part_field, '') = '' and v_parent.relkind = 'p' then
        raise exception using
            errcode = 'LD005',
            message = format('partition of %s: part_field is not set', v_parent_name),
            hint = 'set part_field to the column that the table is partitioned by';
    elsif v_parent.relkind <> 'p' and coalesce(i_part_field, '') <> '' then
        v_check := format(', check (%1$I >= %2$L and %1$I < %3$L)', i_part_field, v_start, v_end);
    end if;

    v_as_owner := londiste._is_of_others(v_parent.relowner);
    execute format('create %stable %s (like %s including all%s%s)%s',
        case v_parent.relpersistence when 'u' then 'unlogged ' else '' end,
        v_part, v_relid::regclass, case when v_as_owner then ' excluding indexes' else '' end, v_check,
        (select format(' with (%s)', string_agg(o.text, ', ')) from unnest(v_parent.reloptions) o (text)
         where v_parent.relkind <> 'p' having count(*) > 0));
    if v_parent.relkind <> 'p' then
        -- Not INHERITS in CREATE TABLE, which does not support generated columns.
        execute format('alter table %s inherit %s', v_part, v_relid::regclass);
        -- A partitioned table gives its partitions their triggers itself.
        perform londiste._copy_triggers(v_relid, v_part::regclass);
    end if;
    perform londiste._copy_rules(v_relid, v_part::regclass);
    perform londiste._copy_rights(v_relid, v_part::regclass);
    if v_as_owner and v_parent.relkind <> 'p' then
        perform londiste._copy_indexes(v_relid, v_part::regclass);
    end if;
    if coalesce(i_pkeys, '') <> ''
        and not exists (select from pg_index i where i.indrelid = v_relid and i.indisprimary)
    then
        execute format('alter table %s add primary key (%s)', v_part,
            (select string_agg(quote_ident(trim(k.name)), ', ' order by k.nr)
             from unnest(string_to_array(i_pkeys, ',')) with ordinality k (name, nr)));
    end if;
    if v_parent.relkind = 'p' then
        -- ATTACH lets other sessions use the parent; PARTITION OF in CREATE TABLE would not.
        perform londiste._run_as_owner(v_part::regclass,
            format('alter table %s attach partition %s for values from (%L) to (%L)',
                v_relid::regclass, v_part, v_start, v_end),
            null::text);
    end if;
    return 1;
end;
$$;
