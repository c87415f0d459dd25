-- A copy that keeps the rows it finds takes its own away when it begins again.

-- Marks that are there already stay without: nobody knows their transactions for certain.
alter table londiste.copy_chunk add column if not exists txid int8;
alter table londiste.copy_chunk alter column txid set default pg_catalog.txid_current();

comment on column londiste.copy_chunk.txid is
    'Transaction of the chunk; differs from xmin in a row restored from a dump';
