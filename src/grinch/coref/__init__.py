"""Author coreference: which of the records that bear a name are of one author."""

from grinch.coref.clustering.block import BlockResult, cluster_block
from grinch.coref.clustering.disambiguator import Disambiguator
from grinch.coref.groups.features import FEATURES, RecordFeatures
from grinch.coref.groups.pairs import PairFeatures
from grinch.coref.groups.statistics import Statistics
from grinch.coref.learned.linkage import CorefLinkage
from grinch.coref.learned.model import Model
from grinch.coref.records.blocking import block_key, blocks
from grinch.coref.records.names import Name, compatible, folded, parsed
from grinch.coref.records.record import Problem, Reading, Record, read_records
from grinch.coref.records.synthetic import make_records
from grinch.coref.results.evaluation import evaluate
from grinch.coref.runs.parallel import Outcomes, run_blocks
from grinch.coref.runs.resolve import Resolution, resolve
from grinch.coref.training import train, train_blocks

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
