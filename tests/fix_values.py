"""Values of every type, as text literals, for tests of what must not lose anything.

``ALL_TYPES`` maps a type, as it is written in ``create table``, to literals that its input
function takes.  Types of the second part need ``TYPE_SETUP``.  ``usable`` says which types and
values a server has: the embedded ones have no xml and no contrib modules, old ones no infinite
interval.
"""

from __future__ import annotations

import psycopg

#: Statements that create the user-defined types; one that fails leaves its types out.
TYPE_SETUP: tuple[str, ...] = (
    "create type public.fix_mood as enum ('sad', 'o''k', 'very \"happy\"', '')",
    'create type public.fix_pair as (a int4, "b c" text, d timestamptz)',
    "create type public.fix_nested as (p public.fix_pair, f float8[], m public.fix_mood)",
    "create domain public.fix_positive as numeric check (value > 0)",
    "create domain public.fix_code as public.fix_positive",
    "create domain public.fix_list as int4[]",
    "create domain public.fix_feeling as public.fix_mood",
    "create domain public.fix_couple as public.fix_pair",
    "create domain public.fix_count as int4",
    "create type public.fix_floats as range (subtype = float8)",
    "create extension if not exists hstore with schema public",
    "create extension if not exists ltree with schema public",
    "create extension if not exists citext with schema public",
)

_TEXTS = [
    "",
    "plain",
    " blanks around ",
    "tab\tnewline\ncarriage\rfeed\fback\b",
    "it's",
    'a "quoted" word',
    "back\\slash \\N \\.",
    "NULL",
    "null",
    "100% &a=b+c;?#",
    "é ü 漢字 😀 e\u0301 \u200b",
    "{}[](),:",
    "$1 $$ %s {x}",
    "</script>\u2028",
    "\x01\x1f\x7f",
]

ALL_TYPES: dict[str, list[str]] = {
    "bool": ["t", "f"],
    "int2": ["-32768", "0", "32767"],
    "int4": ["-2147483648", "0", "2147483647"],
    "int8": ["-9223372036854775808", "0", "9007199254740993", "9223372036854775807"],
    "float4": ["0", "-0", "NaN", "Infinity", "-Infinity", "1e-45", "3.4028235e+38", "0.1"],
    "float8": [
        "0",
        "-0",
        "NaN",
        "Infinity",
        "-Infinity",
        "5e-324",
        "1.7976931348623157e+308",
        "0.30000000000000004",
    ],
    "numeric": [
        "0",
        "0.00",
        "-1.50",
        "12345678901234567.123456789",
        "1" + "0" * 300 + "." + "0" * 50 + "1",
        "NaN",
        "Infinity",
        "-Infinity",
    ],
    "numeric(10,2)": ["1.50", "-99999999.99"],
    "numeric(5,-2)": ["12300"],
    "money": ["0", "-12.34", "92233720368547758.07"],
    "oid": ["0", "4294967295"],
    "xid8": ["18446744073709551615"],
    "pg_lsn": ["FFFFFFFF/FFFFFFFF", "0/0"],
    '"char"': ["a", "", "\\200"],
    "name": ["x", "with blank"],
    "text": _TEXTS,
    "varchar(40)": _TEXTS,
    "char(40)": _TEXTS,
    "bytea": ["", "\\x00", "\\x5c27ff", "\\x" + bytes(range(256)).hex()],
    "date": ["2024-02-03", "infinity", "-infinity", "4713-01-01 BC", "1500-02-28", "5874897-12-31"],
    "time": ["00:00:00", "24:00:00", "23:59:59.999999"],
    "timetz": ["00:00:00+15:59", "24:00:00-15:59", "12:34:56.000001+05:30"],
    "timestamp": [
        "2024-02-03 04:05:06.7",
        "infinity",
        "-infinity",
        "4713-01-01 00:00:00 BC",
        "294276-12-31 23:59:59.999999",
        "1500-02-28 12:00:00",
    ],
    "timestamptz": [
        "2024-02-03 04:05:06.7+00",
        "2024-07-03 04:05:06+05:30",
        "infinity",
        "-infinity",
        "4713-01-01 00:00:00+00 BC",
        "294276-12-31 23:59:59.999999+00",
        "1883-11-18 12:03:57-04:56:02",
    ],
    "interval": [
        "0",
        "-1 mon +3 days -04:05:06.7",
        "178000000 years",
        "1 year -2 mons 3 days",
        "00:00:00.000001",
        "infinity",
        "-infinity",
    ],
    "bit(8)": ["00000000", "10101010"],
    "varbit": ["", "1", "0" * 70 + "1"],
    "uuid": ["00000000-0000-0000-0000-000000000000", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "inet": ["10.0.0.1", "10.0.0.1/8", "::1", "fe80::1/64"],
    "cidr": ["10.0.0.0/8", "2001:db8::/32"],
    "macaddr": ["08:00:2b:01:02:03"],
    "macaddr8": ["08:00:2b:ff:fe:01:02:03"],
    "json": ['{"b": 1, "a": [1,2],  "b": 2}', "1e400", '"\\u00e9"', "null", "[]", ' {"x":"\\\\"} '],
    "jsonb": ['{"b": 1, "a": [1.00, null]}', '"x"', "null", "1e400", '{"k\\"": "v\\n"}'],
    "jsonpath": ['$."a"[*]?(@ > 1)'],
    "xml": ['<a b="1">x &amp; y</a>', "text <b/> text", '<?xml version="1.0"?><r/>'],
    "tsvector": ["'a':1A,2B 'it''s':3", ""],
    "tsquery": ["'a' & !'b' | 'c':*A", ""],
    "point": ["(0.1,-1e+300)"],
    "line": ["{1,-1,0.3}"],
    "lseg": ["[(0,0),(0.1,1)]"],
    "box": ["(2,2),(0.1,1)"],
    "path": ["((0,0),(0.1,1))", "[(0,0),(1,1)]"],
    "polygon": ["((0,0),(0.1,1),(1,0))"],
    "circle": ["<(0.1,0),3>"],
    "int4range": ["empty", "[1,5)", "(,)", "[3,)"],
    "numrange": ["[1.0,2.00]", "(,1.5)"],
    "tstzrange": ["[2024-01-01 00:00:00+00,infinity)", "(,2024-01-01 05:30:00+05:30]"],
    "daterange": ["[2024-01-01,2024-02-01)", "empty"],
    "int4multirange": ["{}", "{[1,3),[5,)}"],
    "tstzmultirange": ['{["2024-01-01 00:00:00+00","2024-01-02 00:00:00+00")}'],
    "int4[]": ["{}", "{1,NULL,3}", "[-1:1]={1,2,3}", "{{1,2},{3,4}}", "{{{{{{1}}}}}}"],
    "text[]": ["{}", '{"",NULL,"NULL","a,b","q\\"q","b\\\\s"," x "}'],
    "float8[]": ["{0.1,NaN,-Infinity,0.30000000000000004}"],
    "bytea[]": ['{"\\\\x00ff",NULL}'],
    "timestamptz[]": ['{"2024-02-03 04:05:06+05:30",infinity}'],
    "interval[]": ['{"1 mon -3 days"}'],
    "json[]": ['{"{\\"a\\": 1}"}'],
    "date[]": ["{2024-02-03}"],
    "money[]": ["{1.50}"],
    "txid_snapshot": ["10:20:10,14"],
    "pg_snapshot": ["10:20:10,14"],
    "int2vector": ["1 2 3"],
    "regtype": ["int4", "text[]"],
    "public.fix_mood": ["sad", "o'k", 'very "happy"', ""],
    "public.fix_mood[]": ['{sad,"very \\"happy\\""}'],
    "public.fix_pair": ["(,,)", '(1,"a ""b"" \\\\c","2024-02-03 04:05:06+00")', '(2,"",)'],
    "public.fix_pair[]": ['{"(1,x,\\"2024-02-03 04:05:06+05:30\\")",NULL}'],
    "public.fix_nested": ['("(1,x,)","{0.1,NaN}",sad)', "(,,)"],
    "public.fix_positive": ["1.50"],
    "public.fix_code": ["2.500"],
    "public.fix_list": ["{1,NULL}"],
    "public.fix_feeling": ["o'k"],
    "public.fix_couple": ['(1,x,"2024-02-03 04:05:06+00")'],
    "public.fix_count": ["7"],
    "public.fix_floats": ["[0.1,0.30000000000000004)", "empty"],
    "public.hstore": ['"a"=>"1", "b c"=>NULL, "q\\"q"=>"x\'y"'],
    "public.ltree": ["Top.Science_1"],
    "public.citext": ["MiXed Case"],
}


def usable(conn: psycopg.Connection[tuple[object, ...]]) -> dict[str, list[str]]:
    """The part of ALL_TYPES this server has, after creating what TYPE_SETUP creates.

    ``conn`` is in autocommit mode.
    """
    for statement in TYPE_SETUP:
        try:
            conn.execute(statement)
        except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile):
            continue
    found: dict[str, list[str]] = {}
    for type_name, literals in ALL_TYPES.items():
        values = [literal for literal in literals if _takes(conn, type_name, literal)]
        if values:
            found[type_name] = values
    return found


def _takes(conn: psycopg.Connection[tuple[object, ...]], type_name: str, literal: str) -> bool:
    try:
        conn.execute(f"select (%s::text)::{type_name}", [literal])
    except psycopg.Error:
        # Casts from text exist for all types but those that only read unknown literals.
        try:
            conn.execute(f"select cast({quoted(literal)} as {type_name})")
        except psycopg.Error:
            return False
    return True


def quoted(literal: str) -> str:
    """A text as an SQL literal."""
    return "E'" + literal.replace("\\", "\\\\").replace("'", "''") + "'"
