-- A restored database is told by this, and rebased: see the design page on ticks and snapshots.
create table if not exists pgq.cluster_identity (
    only_row boolean not null default true,
    row_xmin int8 not null,
    system_identifier int8,
    noted timestamptz not null default pg_catalog.now(),
    constraint cluster_identity_pkey primary key (only_row),
    constraint cluster_identity_one check (only_row)
);

comment on table pgq.cluster_identity
is 'the server whose transaction ids ticks and events hold; see pgq._require_home()';
comment on column pgq.cluster_identity.only_row is 'always true: there is one row';
comment on column pgq.cluster_identity.row_xmin
is 'xmin of this row when it was written: another one shows that a dump was restored';
comment on column pgq.cluster_identity.system_identifier
is 'identifier of the server then; null when it was not to be known';
comment on column pgq.cluster_identity.noted is 'when it was written';

create table if not exists pgq.queue_generation (
    gen_queue int4 not null,
    gen_id uuid not null default pg_catalog.gen_random_uuid(),
    gen_began timestamptz not null default pg_catalog.now(),
    gen_ended timestamptz,
    gen_last_tick int8,
    constraint queue_generation_pkey primary key (gen_queue, gen_id),
    constraint gen_queue_fkey foreign key (gen_queue) references pgq.queue (queue_id)
        on delete cascade
);

create unique index if not exists queue_generation_present on pgq.queue_generation (gen_queue)
where gen_ended is null;

comment on table pgq.queue_generation is 'generations of queues, the present and ended ones';
comment on column pgq.queue_generation.gen_queue is 'queue_id of the queue';
comment on column pgq.queue_generation.gen_id is 'the generation, unique in the world';
comment on column pgq.queue_generation.gen_began
is 'when it began: the queue was created or rebased';
comment on column pgq.queue_generation.gen_ended
is 'when a rebase ended it; null for the present one';
comment on column pgq.queue_generation.gen_last_tick
is 'last tick that the next generation took over: positions up to it are valid there too';

insert into pgq.queue_generation (gen_queue)
select queue_id
from pgq.queue q
where not exists (select 1 from pgq.queue_generation g where g.gen_queue = q.queue_id);
