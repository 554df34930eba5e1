"""Labelled data, generated or read by name, and orders of arrival."""

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
