-- Daemons report what they cannot do at present.
alter table pgq.daemon add column if not exists dm_error text;
comment on column pgq.daemon.dm_error is 'what it cannot do at present';
comment on column pgq.daemon.dm_kind is 'worker, ticker, copy, notify, or the kind of a consumer';

drop function if exists pgq.get_daemons(text);
drop function if exists pgq.report_daemon(
    text, text, text, text, text, int4, text, float8, float8, float8, float8, float8, boolean
);
