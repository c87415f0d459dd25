-- It returns the kind of the reason, too.
drop function if exists londiste.stale_captures(text);
