-- Whether there is a table of this name, and whether this user may read it.  %(relation)s
select
    pg_catalog.to_regclass(%(relation)s) is not null,
    coalesce(pg_catalog.has_table_privilege(pg_catalog.to_regclass(%(relation)s), 'select'), false);
