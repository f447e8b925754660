"""Replacement scans: variables of a program as tables by their names."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Callable, Optional

from ._libraries import arrow_data

#: Arrow data of the variable of a name; None where there is none.
Variables = Callable[[str], Any]


def caller(depth: int) -> FrameType:
    """The frame of the program that called into the package, so many calls above who asks."""
    return sys._getframe(depth + 1)


def variables_of(frame: FrameType) -> Variables:
    """What a program can see from a frame, and from those that have called it: local names, then global ones."""

    def variable(name: str) -> Any:
        seen: Optional[FrameType] = frame
        while seen is not None:
            for scope in (seen.f_locals, seen.f_globals):
                data = arrow_data(scope.get(name))
                if data is not None:
                    return data
            seen = seen.f_back
        return None

    return variable
