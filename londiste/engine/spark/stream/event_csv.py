"""Events as the server writes them by COPY, and as a record batch of Arrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

#: Output format of events on the server, which needs almost no quoting.
_CSV = "(format csv, delimiter E'\\t', quote E'\\x01')"

_SELECT = "copy (select ev_id, ev_txid, ev_type, ev_data, ev_extra1{} from ("
#: As microseconds since 1970.
_TIME = ", (extract(epoch from ev_time) * 1000000)::int8"


def statement(query: str, where: str, *, timed: bool = False) -> str:
    """The COPY that ``table`` reads; query -- of events; where -- a condition, or empty."""
    condition = ["where", where] if where else []
    return "\n".join(
        [
            _SELECT.format(_TIME if timed else ""),
            query,
            ") as ev",
            *condition,
            f") to stdout {_CSV}",
        ]
    )


def table(data: bytes, *, timed: bool = False) -> pa.RecordBatch:
    """Events as the server has written them: id, txid, type, data and extra1; ``time`` if timed."""
    import pyarrow as pa
    from pyarrow import csv

    dictionary = pa.dictionary(pa.int32(), pa.string())
    types = {
        "id": pa.int64(),
        "txid": pa.int64(),
        "type": dictionary,
        "data": pa.string(),
        "extra1": dictionary,
        **({"time": pa.int64()} if timed else {}),
    }
    found = csv.read_csv(
        pa.BufferReader(data),
        read_options=csv.ReadOptions(
            use_threads=False, column_names=list(types), block_size=len(data) + 1
        ),
        parse_options=csv.ParseOptions(
            delimiter="\t", quote_char="\x01", newlines_in_values=True, ignore_empty_lines=False
        ),
        convert_options=csv.ConvertOptions(
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )
    return found.combine_chunks().to_batches()[0]


def without(events: pa.RecordBatch, seen: Callable[[int], bool]) -> pa.RecordBatch:
    """The events of transactions that were not read yet."""
    import pyarrow as pa

    coded = events["txid"].dictionary_encode()
    new = pa.array([not seen(txid) for txid in coded.dictionary.to_pylist()], pa.bool_())
    return events.filter(new.take(coded.indices))
