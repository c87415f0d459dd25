create or replace function londiste._forget_compared()
returns trigger
language plpgsql
security definer
set search_path = pg_catalog, pg_temp
as $$
/*
 * Forgets the results about a table whose rows a copy has replaced; its ranges stay.
 */
begin
    update londiste.compare_range r
    set checked_tick = null,
        checked_at = null,
        rows = null,
        differs = null,
        findings = null
    where r.queue_name = new.queue_name
        and r.table_name = new.table_name
        and (r.checked_at is not null or r.differs is not null);
    return null;
end;
$$;
