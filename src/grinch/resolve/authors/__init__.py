"""Author coreference: which records that share a name are of the same author."""

from grinch.resolve.authors.clustering.block import BlockResult, cluster_block
from grinch.resolve.authors.clustering.disambiguator import Disambiguator
from grinch.resolve.authors.groups.features import FEATURES, RecordFeatures
from grinch.resolve.authors.groups.pairs import PairFeatures
from grinch.resolve.authors.groups.statistics import Statistics
from grinch.resolve.authors.learned.linkage import CorefLinkage
from grinch.resolve.authors.learned.model import Model
from grinch.resolve.authors.records.blocking import block_key, blocks
from grinch.resolve.authors.records.names import Name, compatible, folded, parsed
from grinch.resolve.authors.records.record import Problem, Reading, Record, read_records
from grinch.resolve.authors.records.synthetic import make_records
from grinch.resolve.authors.results.evaluation import evaluate
from grinch.resolve.authors.runs import Outcomes, Resolution, resolve, run_blocks
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
