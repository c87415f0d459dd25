-- Whether there is a function of this signature.  %(function)s -- as regprocedure writes it.
select pg_catalog.to_regprocedure(%(function)s) is not null;
