-- Programs of 4.0.0a1 called it; force_tick() and ticker() do the same.
drop function if exists pgq.tick_now(text);
