create or replace function londiste.restore_table_fkey(
    i_from_table text,
    i_fkey_name text,
    i_lazy boolean default false)
returns text
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Restores a foreign key.
 *
 * i_lazy -- false (default): run the whole statement, which locks both tables while it reads the
 *     rows, and return ''.  true: run nothing and return the next statement.
 *
 * With i_lazy the first statement adds the key without reading the rows.  The second one validates
 * the rows under a weak lock.  '' means that all is done.  The caller runs each statement,
 * commits and calls again.
 *
 * Before PostgreSQL 18 a partitioned table cannot have a key that is not validated.  There the first
 * statement reads the rows, too.
 *
 * Reading the rows calls casts that the owner of the table may have created.  So a statement that does
 * has the rights of the owner, here and where it is returned (londiste.write_as_owner).
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

    -- A key that was NOT VALID or NOT ENFORCED before is restored in that state.
    v_leave_as_is := v_key.fkey_def ~ E'\\mNOT (VALID|ENFORCED)$';

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
            perform londiste._run_as_owner(
                londiste.find_table_oid(v_key.from_table),
                format('alter table %s validate constraint %I',
                    londiste.quote_fqname(v_key.from_table), v_key.fkey_name),
                null::text);
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
    elsif v_leave_as_is then
        execute v_key.fkey_def;
    else
        perform londiste._run_as_owner(
            londiste.find_table_oid(v_key.from_table), v_key.fkey_def, null::text);
    end if;

    delete from londiste.pending_fkeys
    where from_table = v_key.from_table and fkey_name = v_key.fkey_name;
    return '';
end;
$$;
