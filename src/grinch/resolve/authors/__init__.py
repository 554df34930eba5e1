"""Author coreference: which records that share a name are of the same author."""

from grinch.resolve.authors.block_clustering import BlockResult, Disambiguator, cluster_block
from grinch.resolve.authors.evaluation import evaluate
from grinch.resolve.authors.features import FEATURES, RecordFeatures, Statistics
from grinch.resolve.authors.kernels import PairFeatures
from grinch.resolve.authors.model import CorefLinkage, Model
from grinch.resolve.authors.names import Name, compatible, folded, parsed
from grinch.resolve.authors.record import Problem, Reading, Record, block_key, blocks, read_records
from grinch.resolve.authors.runs import Outcomes, Resolution, resolve, run_blocks
from grinch.resolve.authors.synthetic import make_records
from grinch.resolve.authors.training import train, train_blocks

__all__ = [
    "FEATURES",
    "BlockResult",
    "CorefLinkage",
    "Disambiguator",
    "Model",
    "Name",
    "Outcomes",
    "PairFeatures",
    "Problem",
    "Reading",
    "Record",
    "RecordFeatures",
    "Resolution",
    "Statistics",
    "block_key",
    "blocks",
    "cluster_block",
    "compatible",
    "evaluate",
    "folded",
    "make_records",
    "parsed",
    "read_records",
    "resolve",
    "run_blocks",
    "train",
    "train_blocks",
]
