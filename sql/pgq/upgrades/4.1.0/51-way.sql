-- Producers that write into event tables directly learn the current one from a sequence.
do $$
declare
    v_queue record;
begin
    for v_queue in select queue_data_pfx from pgq.queue loop
        execute format('create sequence if not exists %s',
            pgq.quote_fqname(v_queue.queue_data_pfx || '_way'));
        execute format('grant select on %s to public',
            pgq.quote_fqname(v_queue.queue_data_pfx || '_way'));
    end loop;
end;
$$;
