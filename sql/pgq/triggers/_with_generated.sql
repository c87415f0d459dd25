create or replace function pgq._with_generated(i_relid oid, i_new record, i_old record)
returns record
language plpgsql
stable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the new row of a BEFORE UPDATE trigger with the old values of its generated columns.
 *
 * They are not computed yet; PL/pgSQL shows NULL, and triggers in C the old value.
 */
declare
    v_made record;
begin
    if not exists (
        select from pg_attribute where attrelid = i_relid and attgenerated = 's' and not attisdropped)
    then
        return i_new;
    end if;
    execute (
        select format('select row(%s)::%s as value', string_agg(format('($%s).%I',
                case when a.attgenerated = 's' then 2 else 1 end, a.attname), ', ' order by a.attnum),
            i_relid::regclass)
        from pg_attribute as a
        where a.attrelid = i_relid and a.attnum > 0 and not a.attisdropped)
        into v_made
        using i_new, i_old;
    return v_made.value;
end;
$$;
