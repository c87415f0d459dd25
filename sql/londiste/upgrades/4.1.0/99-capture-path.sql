-- Captures know the path in which their expressions resolve: another result.
drop function if exists londiste._capture_options(text[]);
