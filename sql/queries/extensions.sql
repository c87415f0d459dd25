-- Which of the extensions %(names)s this database has.
select e.extname
from pg_catalog.pg_extension as e
where e.extname = any (%(names)s);
