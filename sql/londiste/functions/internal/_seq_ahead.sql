create or replace function londiste._seq_ahead(
    i_real int8,
    i_published int8,
    i_buffer int8,
    i_increment int8,
    i_min int8,
    i_max int8,
    i_cycle boolean)
returns int8
language plpgsql
immutable
set search_path = pg_catalog, pg_temp
as $$
/*
 * Returns the value to publish for a sequence at i_real; NULL when none is due.
 *
 * The value is three buffers ahead in the sequence's own direction, a buffer being i_buffer calls of
 * nextval().  It is due again when less than one buffer is left.
 *
 * The end of the sequence limits it: the value skips at most half of the rest, so that a takeover does
 * not use up a small sequence.  With next to nothing left the end itself is published.  nextval() then
 * fails, which is better than a value that was handed out before.
 *
 * A sequence that cycles continues at its other end; the value may then be lower than before.
 *
 * i_published -- the last published value; NULL: none yet.
 */
declare
    -- Descending sequences are mirrored.
    v_sign numeric := sign(i_increment::numeric);
    v_real numeric := i_real * sign(i_increment::numeric);
    v_told numeric := i_published * sign(i_increment::numeric);
    v_low numeric := case when i_increment > 0 then i_min else - i_max::numeric end;
    v_high numeric := case when i_increment > 0 then i_max else - i_min::numeric end;
    v_span numeric := i_buffer * abs(i_increment::numeric);
    v_new numeric;
begin
    if i_cycle then
        v_span := least(v_span, div(v_high - v_low + 1, 6));
        v_new := v_real + 3 * v_span;
        if v_new > v_high then
            v_new := v_low + (v_new - v_high - 1);
        end if;
        -- How far ahead the published value is, around the end.
        v_told := mod(v_told - v_real + v_high - v_low + 1, v_high - v_low + 1);
        if v_told > v_span and v_told <= 3 * v_span or v_new * v_sign = i_published then
            return null;
        end if;
        return v_new * v_sign;
    end if;

    v_new := div(v_high - v_real, 6);
    if v_new < v_span then
        v_span := v_new;
        v_new := case when v_span < 10 * abs(i_increment::numeric) then v_high
                      else v_real + 3 * v_span end;
    else
        v_new := v_real + 3 * v_span;
    end if;
    if v_new <= v_told or v_real + v_span < v_told and v_new < v_high then
        return null;
    end if;
    return v_new * v_sign;
end;
$$;
