"""Author coreference: records, blocks, features, a learned linkage, authors."""

from grinch.coref.clustering import BlockResult, cluster_block
from grinch.coref.disambiguator import Disambiguator
from grinch.coref.evaluation import evaluate
from grinch.coref.features import FEATURES, RecordFeatures
from grinch.coref.linkage import CorefLinkage
from grinch.coref.model import Model
from grinch.coref.pairs import PairFeatures
from grinch.coref.records import Record
from grinch.coref.statistics import Statistics
from grinch.coref.training import train, train_blocks

__all__ = [
    "FEATURES",
    "BlockResult",
    "CorefLinkage",
    "Disambiguator",
    "Model",
    "PairFeatures",
    "Record",
    "RecordFeatures",
    "Statistics",
    "cluster_block",
    "evaluate",
    "train",
    "train_blocks",
]
