create or replace function pgq._position_generation()
returns int8
language plpgsql
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the generation for positions of new registrations.
 *
 * Raises LD200 where it is not known: tables that were restored without their rows.
 */
declare
    v_generation int8;
begin
    select ps_generation into v_generation from pgq.position_state where ps_id = 1;
    if not found then
        raise exception using
            errcode = 'LD200',
            message = 'pgq.position_state is empty',
            detail = 'the tables of the queue were restored without their rows',
            hint = 'restore the rows as well; or, for empty queues: drop schema if exists '
                'londiste_capture, londiste, pgq_node, pgq_ext, pgq_coop, pgq cascade; then londiste queue install';
    end if;
    return v_generation;
end;
$$;
