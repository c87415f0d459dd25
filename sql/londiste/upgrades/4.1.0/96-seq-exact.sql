-- A switchover publishes values as they are; what is published ahead must not overtake them.
alter table londiste.seq_info add column if not exists exact boolean not null default false;

comment on column londiste.seq_info.exact is
    'the value is that of a stopped root, not one ahead of it';
