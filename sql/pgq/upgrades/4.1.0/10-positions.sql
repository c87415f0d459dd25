-- Positions of consumers are rows of two tables that take turns, so that old snapshots slow no
-- consumer down.  The table pgq.subscription becomes pgq.registration and keeps open batches and
-- positions; a view takes its name.
do $$
declare
    v_used text;
begin
    -- They would go on using the table, which has old positions from now on.
    select string_agg(distinct u.name, '; ' order by u.name)
    into v_used
    from pg_catalog.pg_class c
    join pg_catalog.pg_type y on y.oid = c.reltype
    join pg_catalog.pg_depend d
        on d.refclassid = 'pg_catalog.pg_class'::regclass and d.refobjid = c.oid
            and d.classid in (
                'pg_catalog.pg_rewrite'::regclass, 'pg_catalog.pg_proc'::regclass,
                'pg_catalog.pg_policy'::regclass, 'pg_catalog.pg_trigger'::regclass,
                'pg_catalog.pg_publication_rel'::regclass)
        -- Of its own types only the array is an internal object of the row.
        or d.refclassid = 'pg_catalog.pg_type'::regclass and d.refobjid in (y.oid, y.typarray)
            and d.deptype <> 'i'
    left join pg_catalog.pg_rewrite r
        on d.classid = 'pg_catalog.pg_rewrite'::regclass and r.oid = d.objid
            and r.rulename = '_RETURN'
    left join pg_catalog.pg_trigger t
        on d.classid = 'pg_catalog.pg_trigger'::regclass and t.oid = d.objid
    cross join lateral (
        select case
            when r.oid is null then pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)
            else pg_catalog.pg_describe_object('pg_catalog.pg_class'::regclass, r.ev_class, 0)
        end) as u (name)
    where c.oid = 'pgq.subscription'::regclass and t.tgisinternal is not true;
    if v_used is not null then
        raise exception using
            errcode = 'dependent_objects_still_exist',
            message = 'pgq.subscription becomes a view, and its table is used by ' || v_used,
            hint = 'keep their definitions, drop them, and make them again afterwards';
    end if;
end;
$$;

alter table pgq.subscription rename to registration;

create sequence pgq.subscription_sub_key_seq;

alter table pgq.registration
add column sub_key int8 default nextval('pgq.subscription_sub_key_seq')
    constraint subscription_sub_key_not_null not null,
add column sub_generation int8 default 0
    constraint subscription_sub_generation_not_null not null,
add column sub_nr int8 default 0 constraint subscription_sub_nr_not_null not null,
add constraint subscription_key_uq unique (sub_key);

alter sequence pgq.subscription_sub_key_seq owned by pgq.registration.sub_key;

comment on table pgq.registration
is 'consumers of queues, and where they stood when their positions moved to another table';
comment on column pgq.registration.sub_id
is 'number of the subscription, owner of its retried events; shared by cooperative consumers';
comment on column pgq.registration.sub_queue is 'queue_id of the queue';
comment on column pgq.registration.sub_consumer is 'co_id of the consumer';
comment on column pgq.registration.sub_last_tick
is 'position number sub_nr: tick up to which everything is finished';
comment on column pgq.registration.sub_active
is 'position number sub_nr: when a batch was last opened or finished';
comment on column pgq.registration.sub_batch is 'position number sub_nr: open batch';
comment on column pgq.registration.sub_next_tick
is 'position number sub_nr: tick at which the open batch ends';
comment on column pgq.registration.sub_key is 'number of the registration, never used again';
comment on column pgq.registration.sub_generation
is 'generation of the position table that has later positions than sub_nr';
comment on column pgq.registration.sub_nr is 'number of the position in this row';

create table pgq.position_state (
    ps_id int4 not null default 1,
    ps_generation int8 not null default 0,
    ps_settled timestamptz,
    constraint position_state_pkey primary key (ps_id),
    constraint position_state_single check (ps_id = 1)
);

insert into pgq.position_state default values;

comment on table pgq.position_state is 'which of the position tables is written to; one row';
comment on column pgq.position_state.ps_id is 'always 1';
comment on column pgq.position_state.ps_generation
is 'how often the tables were switched; the last bit is the number of the current table';
comment on column pgq.position_state.ps_settled
is 'when no consumer needed the other table any more; null while one does';

-- Maintenance empties them, so a vacuum would be wasted and in its way.
create table pgq.position_0 (
    pos_key int8 not null,
    pos_nr int8 not null,
    pos_last_tick int8,
    pos_active timestamptz not null,
    pos_batch int8,
    pos_next_tick int8,
    constraint position_0_pkey primary key (pos_key, pos_nr)
)
with (autovacuum_enabled = off);

create index position_0_batch_idx on pgq.position_0 (pos_batch) where pos_batch is not null;

create table pgq.position_1 (
    pos_key int8 not null,
    pos_nr int8 not null,
    pos_last_tick int8,
    pos_active timestamptz not null,
    pos_batch int8,
    pos_next_tick int8,
    constraint position_1_pkey primary key (pos_key, pos_nr)
)
with (autovacuum_enabled = off);

create index position_1_batch_idx on pgq.position_1 (pos_batch) where pos_batch is not null;

-- The row of key 0 tells which generation a table has.  A snapshot that does not see it is older
-- than the last TRUNCATE, and must not take the missing rows for never written.
insert into pgq.position_0 (pos_key, pos_nr, pos_active) values (0, 0, pg_catalog.now());

comment on table pgq.position_0 is 'positions of consumers in even generations';
comment on column pgq.position_0.pos_key is 'sub_key of the registration';
comment on column pgq.position_0.pos_nr
is 'number of the position, without gaps; the highest counts';
comment on column pgq.position_0.pos_last_tick is 'tick up to which everything is finished';
comment on column pgq.position_0.pos_active is 'when a batch was last opened or finished';
comment on column pgq.position_0.pos_batch is 'open batch; null when there is none';
comment on column pgq.position_0.pos_next_tick is 'tick at which the open batch ends';

comment on table pgq.position_1 is 'positions of consumers in odd generations';
comment on column pgq.position_1.pos_key is 'sub_key of the registration';
comment on column pgq.position_1.pos_nr
is 'number of the position, without gaps; the highest counts';
comment on column pgq.position_1.pos_last_tick is 'tick up to which everything is finished';
comment on column pgq.position_1.pos_active is 'when a batch was last opened or finished';
comment on column pgq.position_1.pos_batch is 'open batch; null when there is none';
comment on column pgq.position_1.pos_next_tick is 'tick at which the open batch ends';
