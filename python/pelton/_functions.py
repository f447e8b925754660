"""Functions of Python in SQL: what their types are, and decorators."""

from __future__ import annotations

import typing
from typing import Any, Callable, List, Optional, Tuple, TypeVar

from ._native import Error
from ._types import Columns, column_list, positional, sql_type

#: A class whose instances are the states of groups.
Aggregate = Any

_F = TypeVar("_F", bound=Callable[..., Any])


def _hints(function: Any) -> Any:
    try:
        return typing.get_type_hints(function)
    except (NameError, TypeError):
        return getattr(function, "__annotations__", {})


def _argument_types(name: str, function: Any, arguments: Optional[List[Any]], skipped: int = 0) -> List[Any]:
    if arguments is not None:
        return list(arguments)
    import inspect

    try:
        parameters = list(inspect.signature(function).parameters.values())[skipped:]
    except (TypeError, ValueError):
        raise Error(f"the types of the arguments of {name} are not known: give them as arguments=[…]") from None
    hints = _hints(function)
    missing = [parameter.name for parameter in parameters if parameter.name not in hints]
    if missing:
        raise Error(f"the argument {missing[0]} of {name} has no type: annotate it, or give arguments=[…]")
    return [hints[parameter.name] for parameter in parameters]


def _return_type(name: str, function: Any, returns: Any) -> Any:
    declared = returns if returns is not None else _hints(function).get("return")
    if declared is None:
        raise Error(f"the type that {name} returns is not known: annotate the function, or give returns=…")
    return declared


def declared_function(name: str, function: Any, arguments: Optional[List[Any]], returns: Any) -> Tuple[str, str]:
    """The types of a function as lists of columns."""
    types = _argument_types(name, function, arguments)
    return positional(types), f"`result` {sql_type(_return_type(name, function, returns))}"


def declared_aggregate(name: str, class_: Any, arguments: Optional[List[Any]], returns: Any) -> Tuple[str, str]:
    """As :func:`declared_function`, from the methods ``accumulate`` and ``finish``."""
    for method in ("accumulate", "finish"):
        if not hasattr(class_, method):
            raise Error(f"the aggregate {name} has no method {method}")
    types = _argument_types(name, class_.accumulate, arguments, skipped=1)
    return positional(types), f"`result` {sql_type(_return_type(name, class_.finish, returns))}"


def declared_table_function(
    name: str, function: Any, arguments: Optional[List[Any]], returns: Optional[Columns]
) -> Tuple[str, str]:
    """As :func:`declared_function`, with columns."""
    if returns is None:
        raise Error(f"the columns that {name} returns are not known: give returns={{'name': type, …}}")
    return positional(_argument_types(name, function, arguments)), column_list(returns)


def function(name: Optional[str] = None, *, by_row: bool = False, connection: Any = None) -> Callable[[_F], _F]:
    """Makes an annotated function one of SQL, on the connection that the process shares unless another one is given.

    >>> @pelton.function(by_row=True)
    ... def greeting(name: str) -> str:
    ...     return f"hello {name}"
    >>> pelton.sql("SELECT greeting('you')").fetchone()
    ('hello you',)
    """

    def decorate(decorated: _F) -> _F:
        _connection(connection).create_function(name or decorated.__name__, decorated, by_row=by_row)
        return decorated

    return decorate


def aggregate(name: Optional[str] = None, *, by_row: bool = False, connection: Any = None) -> Callable[[Any], Any]:
    """Makes a class an aggregate function, as :func:`function` does with functions.

    >>> @pelton.aggregate(by_row=True)
    ... class product:
    ...     def __init__(self):
    ...         self.value = 1
    ...     def accumulate(self, value: int) -> None:
    ...         self.value *= value
    ...     def finish(self) -> int:
    ...         return self.value
    >>> pelton.sql("SELECT product(a) FROM (VALUES (3), (5)) AS t (a)").fetchone()
    (15,)
    """

    def decorate(decorated: Any) -> Any:
        _connection(connection).create_aggregate(name or decorated.__name__, decorated, by_row=by_row)
        return decorated

    return decorate


def table_function(
    returns: Columns, name: Optional[str] = None, *, by_row: bool = False, connection: Any = None
) -> Callable[[_F], _F]:
    """Makes an annotated function a table function, as :func:`function` does.

    >>> @pelton.table_function({"letter": str}, by_row=True)
    ... def letters(word: str):
    ...     return list(word)
    >>> pelton.sql("SELECT letter FROM (VALUES ('ab')) AS t (w) CROSS JOIN LATERAL TABLE(letters(w))").fetchall()
    [('a',), ('b',)]
    """

    def decorate(decorated: _F) -> _F:
        _connection(connection).create_table_function(
            name or decorated.__name__, decorated, returns=returns, by_row=by_row
        )
        return decorated

    return decorate


def _connection(connection: Any) -> Any:
    if connection is not None:
        return connection
    from . import default_connection

    return default_connection()
