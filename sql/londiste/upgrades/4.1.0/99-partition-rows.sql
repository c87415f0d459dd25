-- A partition that was dropped, emptied after DETACH, or attached again is noticed by maintenance.
alter table londiste.capture_partition
    add column if not exists place text,
    add column if not exists rows int8 not null default 0,
    add column if not exists looked int8;

comment on column londiste.capture_partition.place is
    'Where it was in the table, which ATTACH changes; NULL: it has left the table';
comment on column londiste.capture_partition.rows is
    'About how many rows it had when maintenance last looked; 0: none';
comment on column londiste.capture_partition.looked is
    'The table itself: transactions from here on may be younger than the last look; NULL: a partition';

-- It has an argument.
drop function if exists londiste._watch_partitions();
