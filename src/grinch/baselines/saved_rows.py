"""Points as they were given, in files: rows of numbers, dense or sparse, or a list of records."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from grinch.errors import SavedModelError
from grinch.saving.json_values import csr_of, value_bytes, value_of
from grinch.saving.state import State, array, item

CSR = ("data", "indices", "indptr")


def rows_to_state(rows: Any) -> State:
    if scipy.sparse.issparse(rows):
        is_matrix = isinstance(rows, scipy.sparse.spmatrix)
        parts = {part: getattr(rows, part) for part in CSR}
        return {"sparse": parts | {"shape": list(rows.shape), "is_matrix": is_matrix}}
    if isinstance(rows, np.ndarray):
        return {"dense": np.ascontiguousarray(rows)}
    return {"records": value_bytes(list(rows), "a record")}


def rows_from_state(state: Any) -> Any:
    if not isinstance(state, dict) or len(state) != 1:
        raise SavedModelError(f"{state!r:.60} are no points")
    if "records" in state:
        return value_of(array(state, "records", "|u1", 1))
    if "dense" in state:
        return array(state, "dense", None, 2)
    content = item(state, "sparse")
    return csr_of(item(content, "is_matrix"), item(content, "shape"), *(array(content, each, None, 1) for each in CSR))
