"""Pictures of trees and of measurements. Each function draws on an Axes and returns it."""

from grinch.plots.clusters import plot_clusters
from grinch.plots.comparison import plot_comparison
from grinch.plots.curves import plot_curves
from grinch.plots.dendrogram import plot_dendrogram
from grinch.plots.icicle import plot_icicle

__all__ = ["plot_clusters", "plot_comparison", "plot_curves", "plot_dendrogram", "plot_icicle"]
