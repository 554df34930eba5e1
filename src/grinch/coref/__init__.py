"""Author coreference: which of the records that bear a name are of one author."""

from grinch.coref.blocking import block_key, blocks
from grinch.coref.clustering import BlockResult, cluster_block
from grinch.coref.disambiguator import Disambiguator
from grinch.coref.evaluation import evaluate
from grinch.coref.features import FEATURES, RecordFeatures
from grinch.coref.linkage import CorefLinkage
from grinch.coref.model import Model
from grinch.coref.names import Name, compatible, folded, parsed
from grinch.coref.pairs import PairFeatures
from grinch.coref.parallel import Outcomes, run_blocks
from grinch.coref.records import Problem, Reading, Record, read_records
from grinch.coref.resolve import Resolution, resolve
from grinch.coref.statistics import Statistics
from grinch.coref.synthetic import make_records
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
