"""Labelled data: made on the spot, read from files, and the orders it can arrive in."""

from grinch.datasets.catalog import CATALOG, Description
from grinch.datasets.loaders import available, load
from grinch.datasets.orders import ORDERS, arrival
from grinch.datasets.readers import Labelled
from grinch.datasets.synthetic import gaussian_mixture, paper_synthetic, separated

__all__ = [
    "CATALOG",
    "ORDERS",
    "Description",
    "Labelled",
    "arrival",
    "available",
    "gaussian_mixture",
    "load",
    "paper_synthetic",
    "separated",
]
