"""The columns of the integer edge array that the compiled kernels share.

An edge is one row. Its cost for labels a of `U` and b of `V` is
``mult · cells[AT + maps[ROW_AT + a] · ROW_STEP + maps[COL_AT + b] · COL_STEP]``: many edges share few cells, and a
label reaches its cell through a class map, so that removing, merging or reordering labels only rewrites maps.
"""

from typing import Final

U: Final = 0
"""Variable whose label picks the row."""
V: Final = 1
"""Variable whose label picks the column."""
AT: Final = 2
"""Where the cells of the table start."""
ROW_STEP: Final = 3
"""Distance in cells from one row class to the next."""
COL_STEP: Final = 4
"""Distance in cells from one column class to the next."""
ROWS: Final = 5
"""Number of row classes."""
COLS: Final = 6
"""Number of column classes."""
ROW_AT: Final = 7
"""Where the map from labels of `U` to row classes starts."""
COL_AT: Final = 8
"""Where the map from labels of `V` to column classes starts."""
KIND: Final = 9
"""One of `COST`, `TIE`, `LAZY`."""
SOURCE: Final = 10
"""Table index the cells came from; for `LAZY` the table to price; -1 for computed cells."""
RELATION: Final = 11
"""Row of the problem's relations that the edge says, -1 for a cost."""
WIDTH: Final = 12

COST: Final = 0
"""Cells are stored."""
TIE: Final = 1
"""Allowed exactly where row and column class agree; there are no cells."""
LAZY: Final = 2
"""Cells are priced on demand and never looked at here."""
