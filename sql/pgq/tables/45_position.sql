-- Positions of consumers: a row for each move, never updated or deleted.  Two tables take turns,
-- so that one can be emptied by TRUNCATE, which no old snapshot prevents.
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

-- Maintenance truncates them, so a vacuum would be wasted and would block it.
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

-- The row of key 0 contains the generation of a table.  A snapshot that does not see it is older
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
