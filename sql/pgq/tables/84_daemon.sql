-- Signs of life.  Without an index on what changes, so that each update stays in its page.
create table pgq.daemon (
    dm_kind text not null,
    dm_queue text not null,
    dm_name text not null,
    dm_part text not null,
    dm_role name not null,
    dm_host text not null,
    dm_pid int4 not null,
    dm_version text not null,
    dm_started timestamptz not null,
    dm_seen timestamptz not null,
    dm_period float8 not null,
    dm_worked timestamptz,
    dm_fetch float8,
    dm_apply float8,
    dm_stopped timestamptz,
    dm_backend int4 not null,
    dm_backend_start timestamptz,
    dm_error text,
    constraint daemon_pkey primary key (dm_kind, dm_queue, dm_name, dm_part, dm_role)
) with (fillfactor = 50);

comment on table pgq.daemon is 'daemons that work in this database, and when each was last seen';
comment on column pgq.daemon.dm_kind is 'worker, ticker, copy, notify, or the kind of a consumer';
comment on column pgq.daemon.dm_queue is 'name of the queue; empty for a ticker';
comment on column pgq.daemon.dm_name is 'name of the worker or consumer; the host of a ticker';
comment on column pgq.daemon.dm_part is 'name of a cooperative consumer, else empty';
comment on column pgq.daemon.dm_role is 'role that reports; no other role changes the row';
comment on column pgq.daemon.dm_host is 'host of the process';
comment on column pgq.daemon.dm_pid is 'process id on that host';
comment on column pgq.daemon.dm_version is 'version of Londiste';
comment on column pgq.daemon.dm_started is 'start of the process';
comment on column pgq.daemon.dm_seen is 'last report';
comment on column pgq.daemon.dm_period is 'seconds between two reports of an idle daemon';
comment on column pgq.daemon.dm_worked is 'end of its last batch or tick';
comment on column pgq.daemon.dm_fetch is 'seconds from the tick of its last batch until it was opened';
comment on column pgq.daemon.dm_apply is 'seconds that its last batch took';
comment on column pgq.daemon.dm_stopped is 'when it ended as requested; null while it runs';
comment on column pgq.daemon.dm_backend is 'process id of its session on this server';
comment on column pgq.daemon.dm_backend_start is 'start of that session';
comment on column pgq.daemon.dm_error is 'what it cannot do at present';
