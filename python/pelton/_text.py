"""Rows as text and HTML."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple

#: SQL types whose values are aligned to the right.
NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")

Columns = Sequence[Tuple[str, str]]
Rows = Sequence[Sequence[Optional[str]]]


def _is_number(kind: str) -> bool:
    return kind.split("(")[0] in NUMBERS


def text_table(columns: Columns, rows: Rows) -> str:
    """A table for a terminal."""
    texts: List[List[str]] = [["NULL" if value is None else value for value in row] for row in rows]
    widths = [max([len(name), *(len(row[index]) for row in texts)]) for index, (name, _) in enumerate(columns)]

    def line(values: Sequence[str]) -> str:
        parts = [
            value.rjust(width) if _is_number(kind) else value.ljust(width)
            for value, width, (_, kind) in zip(values, widths, columns)
        ]
        return "  ".join(parts).rstrip()

    head = [line([name for name, _ in columns]), "  ".join("─" * width for width in widths)]
    return "\n".join(head + [line(row) for row in texts])


def html_table(columns: Columns, rows: Rows, has_more: bool) -> str:
    """A table for a notebook."""
    import html

    def cell(value: Optional[str], kind: str) -> str:
        side = "right" if _is_number(kind) else "left"
        text = "<i>NULL</i>" if value is None else html.escape(value)
        return f'<td style="text-align:{side}">{text}</td>'

    names = "".join(f'<th style="text-align:left" title="{html.escape(kind)}">{html.escape(name)}</th>' for name, kind in columns)
    kinds = [kind for _, kind in columns]
    body = "".join("<tr>" + "".join(map(cell, row, kinds)) + "</tr>" for row in rows)
    more = "<p>… and more rows</p>" if has_more else ""
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>{more}"
