"""Linkages: the similarity of two groups of points or records."""

from grinch.linkage.base import Linkage
from grinch.linkage.bayesian import Bayesian, BetaBernoulli, NormalGamma
from grinch.linkage.learned import Learned
from grinch.linkage.named import VectorGroup, VectorLinkage
from grinch.linkage.pairwise import Pairwise
from grinch.linkage.rules import WithRules
from grinch.linkage.weighted import VectorMeans, WeightedSum
