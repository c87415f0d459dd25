/*
 * Commits a transaction that is on disk, with everything that was committed before it, when the
 * statement returns.
 *
 * A snapshot sees transactions with synchronous_commit = off before they are on disk.  A crash takes
 * them back, and later ones get their ids.
 */
select
    pg_catalog.set_config(
        'synchronous_commit',
        case s.setting when 'off' then 'on' else s.setting end,
        true),
    pg_catalog.pg_logical_emit_message(true, 'londiste', '')
from pg_catalog.pg_settings s
where s.name = 'synchronous_commit'
