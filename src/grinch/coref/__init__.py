"""Author coreference: which of the records that bear a name are of one author."""

from grinch.coref.blocking import block_key, blocks
from grinch.coref.names import Name, compatible, folded, parsed
from grinch.coref.records import Problem, Reading, Record, read_records
from grinch.coref.synthetic import make_records

__all__ = [
    "Name",
    "Problem",
    "Reading",
    "Record",
    "block_key",
    "blocks",
    "compatible",
    "folded",
    "make_records",
    "parsed",
    "read_records",
]
