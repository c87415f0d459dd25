create or replace function londiste._capture_form(
    i_asked text,
    i_has_key bool,
    i_key_is_plain bool,
    i_relkind "char",
    i_is_partition bool,
    i_inherits bool,
    i_sees_all bool,
    i_cascades bool,
    i_checked_late bool,
    i_options record,
    out form text,
    out reason text)
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the capture mode of a table, row or statement, and why.
 *
 * i_asked -- auto, row or statement: the statement form is used where it is safe, unless the row form
 *     is requested.
 * i_key_is_plain -- the texts of the key depend on no setting of a session.
 * i_inherits -- other tables inherit from it, or it from another.
 * i_sees_all -- no policy hides rows from the owner of the capture.
 * i_cascades -- foreign keys change rows of the table.
 * i_checked_late -- two of its rows may have one key until a transaction commits.
 */
begin
    form := 'row';
    reason := case
        when i_asked = 'row' then 'asked for'
        when i_checked_late then 'its key may be checked at commit, where each of its rows is captured again'
        when i_relkind = 'p' then 'it is partitioned: a statement trigger would miss writes to later partitions'
        when i_is_partition then 'it is a partition: what is written through its parent would pass a statement trigger by'
        when i_inherits then 'it inherits or is inherited from: statement triggers fire for the table that is named only'
        when i_cascades then 'foreign keys change its rows within a statement, and their order is that of the rows'
        when not i_sees_all then 'row level security hides rows from the owner of the capture'
        when i_options.condition is not null then 'the option when= is evaluated for each row'
        when num_nonnulls(variadic i_options.extras) > 0 then 'an expression is evaluated for each row'
        when i_options.backup then 'the option backup needs old and new row together'
        when i_options.ignored <> '{}' then 'the option ignore= compares old and new row'
        when i_has_key and not i_key_is_plain then 'the text of the key depends on settings of the session'
    end;
    if reason is null then
        form := 'statement';
        reason := case i_asked
            when 'statement' then 'asked for'
            else 'a statement is captured at once, many rows in one event'
        end;
    end if;
end;
$$;
