"""grinch: incremental hierarchical clustering under any linkage function.

>>> from grinch import Grinch
>>> Grinch(linkage="average", n_clusters=2).fit_predict([[1, 0], [0, 1], [2, 0.1]]).tolist()
[0, 1, 0]
"""

from grinch.estimators import Grinch
from grinch.linkage import Linkage
from grinch.tree import Tree

__version__ = "0.1.0"
__all__ = ["Grinch", "Linkage", "Tree", "__version__"]
