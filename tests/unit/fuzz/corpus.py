"""Texts that have broken parsers before, and strategies around them."""

from __future__ import annotations

from hypothesis import strategies as st

#: Valid pieces of every format; mutations of them get deeper than random text.
PIECES = (
    *('{"op":"INSERT","table":["public","t"],"pkey":["id"]', '"row":"0123abcd"', '"pack":true}'),
    *('{"op":"UPDATE","table":["a.b","c"],"pkey":["id"],"state":true}', '{"id":1,"v":null}'),
    *('{"id":"1"}\n{"id":"2"}', '{"id":1e999}', '{"id":' + "9" * 5000 + "}", '{"a":[1]}'),
    *("[" * 2000, '{"a":' * 2000, '"\\ud800"', '"\\u0000"', "NaN", "Infinity", "true", "null"),
    *("I:id", "U:id,v", "D:", "I", "U", "D", "R", "EXECUTE", "public.t", "t", ".", "..", "a.b.c"),
    *("id=1&v=%20", "id&v=", "id=%zz", "id=%ff", "id=%00", "a+b=c+d", "&&", "=", "id=1&id=2"),
    *("(id,v) values ('1',null)", "v='x' where id='1'", "id='1' and v is null", "''", "E'\\'"),
    *('"a""b"', "'", '"', "$$", "$a$", "/*", "*/", "--", ";", "begin atomic", "case", "end", "\\"),
    *("londiste.update-seq", "pgq.tick-id", "copy", "\x00", "\ud800", "\U0001f600", "\u2028", "é"),
    *("%s", "%(a)s", "{}", "{0.__class__}", "${HOME}", "\r\n", "\t", " ", "[londiste]", 'db = "x"'),
    *(
        "handler(a=b&c=%41)",
        "handler(",
        ")",
        "host=/tmp dbname='a b' password=secret",
        "postgres://",
    ),
    *("postgresql://u:p%40ss@[::1]:5432/db?sslmode=x", "-1", "1" * 400, "../../etc/passwd", "<b>"),
)

#: Any text, pieces of the formats, and both mixed and cut.
texts = st.one_of(
    st.sampled_from(PIECES),
    st.text(max_size=40),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=6)), max_size=6).map("".join),
    st.tuples(st.sampled_from(PIECES), st.integers(0, 60)).map(lambda cut: cut[0][cut[1] :]),
)
optional = st.one_of(st.none(), texts)
