-- The replicated sequences of this database that exist: name and oid.
select s.seq_name, londiste.find_seq_oid(s.seq_name)
from londiste.seq_info s
where s.local and londiste.find_seq_oid(s.seq_name) is not null
