create or replace function londiste._argument_fault(
    i_relid oid,
    i_args text[],
    out argument text,
    out fault text,
    out columns text[])
language plpgsql
set search_path = pg_catalog, pg_temp
set lock_timeout = '100ms'
as $$
/*
 * Returns the first argument of a trigger with which each write into the table fails, and why.
 *
 * i_args -- without the names of queue and table.
 *
 * columns -- the words of the expression that are columns of the table, as written, so that they mean
 *     nothing else.  All results are NULL when no argument is known to fail.
 *
 * fault -- NULL with an argument: not known, because another session locks a table that it names.  After one
 *     such wait the transaction hardly waits for others.
 */
declare
    v_path text;
    v_names text[] := array(select c.name from pgq._row_columns(i_relid) as c order by c.pos);
    v_value text;
    v_unknown text;
begin
    if current_setting('londiste.argument_locked', true) = '1' then
        perform set_config('lock_timeout', '1ms', true);
    end if;
    for argument, v_value in
        select a.arg, substr(a.arg, strpos(a.arg, '=') + 1)
        from unnest(i_args) with ordinality as a (arg, place)
        where a.arg ~ '^(search_path|pkey|when|ev_(type|data|extra[1-4]))='
        order by not starts_with(a.arg, 'search_path='), a.place
    loop
        if starts_with(argument, 'search_path=') then
            begin
                v_path := pgq._checked_path(v_value);
            exception
                when sqlstate 'LD005' then
                    fault := 'it is no list of schemas';
            end;
        elsif starts_with(argument, 'pkey=') then
            fault := (
                select format('column %I does not exist', n.name)
                from unnest(pgq._column_list(string_to_array(v_value, ','), v_names)) as n (name)
                where n.name <> all (v_names)
                limit 1);
        else
            begin
                fault := londiste._expression_fault(i_relid, v_value, starts_with(argument, 'when='), v_path);
            exception
                when lock_not_available then
                    v_unknown := coalesce(v_unknown, argument);
                    perform set_config('lock_timeout', '1ms', true),
                        set_config('londiste.argument_locked', '1', true);
            end;
        end if;
        if fault is not null then
            columns := array(
                select n.name
                from unnest(v_names) with ordinality as n (name, place)
                where argument !~ '^(search_path|pkey)='
                    and pgq._expression_sql(v_value, array[n.name], 'x') <> v_value
                order by n.place);
            return;
        end if;
    end loop;
    argument := v_unknown;
end;
$$;
