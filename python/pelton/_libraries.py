"""Other libraries, where they are installed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


def _imported(name: str, what: str) -> Any:
    try:
        return __import__(name)
    except ImportError:
        raise ImportError(f"{what} needs {name}: pip install {name}") from None


def arrow_table(rows: Any) -> "pyarrow.Table":
    """Rows as a table of pyarrow, with strings that its functions compute with."""
    pa = _imported("pyarrow", ".arrow()")
    table = pa.table(rows) if hasattr(rows, "__arrow_c_stream__") else pa.Table.from_batches([pa.record_batch(rows)])
    return table.cast(pa.schema([field.with_type(_plain(pa, field.type)) for field in table.schema]))


def _plain(pa: Any, data_type: Any) -> Any:
    """The type with strings in place of views of strings."""
    types = pa.types
    if data_type == pa.string_view():
        return pa.string()
    if data_type == pa.binary_view():
        return pa.binary()
    if types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_plain(pa, data_type.value_type)))
    if types.is_struct(data_type):
        return pa.struct([field.with_type(_plain(pa, field.type)) for field in data_type])
    if types.is_map(data_type):
        return pa.map_(_plain(pa, data_type.key_type), data_type.item_field.with_type(_plain(pa, data_type.item_type)))
    return data_type


def pandas_frame(rows: Any) -> "pandas.DataFrame":
    """Rows as a DataFrame of pandas."""
    _imported("pandas", ".df()")
    return arrow_table(rows).to_pandas()


def polars_frame(rows: Any) -> "polars.DataFrame":
    """Rows as a DataFrame of Polars."""
    pl = _imported("polars", ".pl()")
    return pl.DataFrame(rows)


def arrow_data(value: Any) -> Any:
    """What has Arrow data: the value itself, or what pyarrow or Polars make of it; None of anything else."""
    if isinstance(value, type):
        return None
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        pa = _imported("pyarrow", "a DataFrame of pandas")
        return pa.Table.from_pandas(value, preserve_index=False)
    polars = sys.modules.get("polars")
    if polars is not None and isinstance(value, polars.LazyFrame):
        return value.collect()
    if polars is not None and isinstance(value, polars.Series):
        return value.to_frame()
    has_arrow = hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")
    return value if has_arrow else None
