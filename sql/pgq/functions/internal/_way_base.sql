create or replace function pgq._way_base(i_sequence regclass)
returns int8
language plpgsql
immutable
strict
set search_path = pg_catalog, pg_temp
as $$
/*
 * What the value of a queue's way stands on: another number in every database and for every sequence;
 * null where the server does not say which one it is.
 *
 * A dump carries the value of the sequence, but not from the same moment as the row of the queue.  Where it is restored it
 * stands on another number, and says nothing.  A copy of all files keeps number and value, which fit each other there.
 *
 * Declared immutable, which it is for as long as a server runs: so it is worked out when a plan is
 * made, and costs an event nothing.
 */
declare
    v_server int8;
begin
    if not has_function_privilege('pg_catalog.pg_control_system()', 'execute') then
        return null;
    end if;
    select system_identifier into v_server from pg_control_system();
    -- 46 bits, and 16 zeros for what the value says.
    return (hashtextextended(
        format('%s %s %s', v_server,
            (select oid from pg_database where datname = current_database()), i_sequence::oid),
        0) & 70368744177663) << 16;
end;
$$;
