create or replace function londiste.restore_table_fkey(
    i_from_table text,
    i_fkey_name text,
    i_lazy boolean default false)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Makes a foreign key again.
 *
 * Not lazy: runs the whole statement, which holds locks on both tables while it reads the
 * rows; returns ''.  Lazy: runs nothing but returns the next statement, first one that adds
 * the key without looking at the rows, then one that looks at them under a weak lock, and
 * '' when all is done.  The caller runs it, commits and asks again.
 *
 * A partitioned table cannot have a key that is not checked before PostgreSQL 18: there the first
 * statement looks at the rows, too.
 */
declare
    v_key londiste.pending_fkeys;
    v_validated boolean;
    v_leave_as_is boolean;
begin
    select * into v_key
    from londiste.pending_fkeys f
    where f.from_table = londiste.make_fqname(i_from_table) and f.fkey_name = i_fkey_name;
    if not found then
        return '';
    end if;
    v_key.fkey_def := londiste._fkey_statement(v_key);

    -- A key that was NOT VALID or NOT ENFORCED before comes back as it was.
    v_leave_as_is := v_key.fkey_def ~ '\mNOT (VALID|ENFORCED)$';

    select c.convalidated into v_validated
    from pg_constraint c
    where c.conrelid = londiste.find_table_oid(v_key.from_table)
        and c.conname = v_key.fkey_name
        and c.contype = 'f';
    if found then
        if i_lazy and not v_validated and not v_leave_as_is then
            return format('ALTER TABLE %s VALIDATE CONSTRAINT %I',
                londiste.quote_fqname(v_key.from_table), v_key.fkey_name);
        end if;
        if not v_validated and not v_leave_as_is then
            execute format('alter table %s validate constraint %I',
                londiste.quote_fqname(v_key.from_table), v_key.fkey_name);
        end if;
    elsif i_lazy then
        return v_key.fkey_def
            || case
                when v_leave_as_is
                    or current_setting('server_version_num')::int4 < 180000
                        and londiste.find_rel_oid(v_key.from_table, 'p') is not null
                then ''
                else ' NOT VALID'
            end;
    else
        execute v_key.fkey_def;
    end if;

    delete from londiste.pending_fkeys
    where from_table = v_key.from_table and fkey_name = v_key.fkey_name;
    return '';
end;
$$;
