-- The server whose transaction ids the queues of this database contain.  One row.
create table pgq.cluster_identity (
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
