create or replace function pgq_ext.make_sink_stage(a_sink text, a_attempt uuid)
returns int8
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Creates the table in which the tasks of an attempt stage their rows, unless it exists.
 *
 * Returns the number in its name, pgq_ext.staged_NUMBER.  Call it in a transaction of its own: other
 * tasks wait for the end of the transaction.
 *
 * The table has the columns part (uuid, of one run of a task), chunk (int4, from 0) and rows (text).
 * It is unlogged: a crash of the server truncates it.  So the reader has to know how many rows to
 * expect.
 */
declare
    v_stage int8;
    v_role text;
begin
    insert into pgq_ext.sink_stage as s (sink_id, attempt)
    values (a_sink, a_attempt)
    on conflict on constraint sink_stage_attempt_key do nothing
    returning s.stage_id into v_stage;
    if not found then
        select s.stage_id into strict v_stage
        from pgq_ext.sink_stage s
        where s.attempt = a_attempt;
        return v_stage;
    end if;
    execute format(
        'create unlogged table pgq_ext.%I'
        ' (part uuid not null, chunk int4 not null, rows text not null, primary key (part, chunk))',
        'staged_' || v_stage
    );
    -- Default privileges of the owner are for the tables of applications.
    for v_role in
        select distinct case a.grantee when 0 then 'public' else a.grantee::regrole::text end
        from pg_class c
            cross join lateral aclexplode(c.relacl) as a
        where c.oid = to_regclass('pgq_ext.staged_' || v_stage) and a.grantee <> c.relowner
    loop
        execute format('revoke all on pgq_ext.%I from %s', 'staged_' || v_stage, v_role);
    end loop;
    -- Each chunk is read once: compression costs more than it saves.
    execute format(
        'alter table pgq_ext.%I alter column rows set storage external', 'staged_' || v_stage
    );
    execute format('grant select, insert on pgq_ext.%I to pgq_writer', 'staged_' || v_stage);
    return v_stage;
end;
$$;
