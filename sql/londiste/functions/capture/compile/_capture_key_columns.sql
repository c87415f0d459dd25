create or replace function londiste._capture_key_columns(i_relid oid, i_args text[])
returns text[]
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the key columns of a capture.
 *
 * The key is the one of the option pkey=, while these columns exist; otherwise the primary key; empty
 * without one.
 */
declare
    v_given text[] := (londiste._capture_options(i_args[3:])).key_columns;
    v_columns text[];
    v_key text[];
begin
    if v_given <> '{}' then
        v_columns := array(select c.name from londiste._row_columns(i_relid) as c);
        v_key := pgq._column_list(v_given, v_columns);
        if v_key <> '{}' and v_key <@ v_columns then
            return v_key;
        end if;
    end if;
    if pg_trigger_depth() = 0 then
        return pgq._key_columns(i_relid);
    end if;
    -- The current names of the columns, as in _row_columns().
    return (
        select case when count(*) = count(c.name) then coalesce(array_agg(c.name order by k.place), '{}') else '{}' end
        from pg_index as i
            cross join unnest(i.indkey::int2[]) with ordinality as k (attnum, place)
            left join londiste._row_columns(i_relid) as c on c.pos = k.attnum
        where i.indrelid = i_relid
            and i.indisprimary
            and k.place <= i.indnkeyatts);
end;
$$;
