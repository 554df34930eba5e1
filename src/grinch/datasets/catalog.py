"""The data sets there are by name: one plain dict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from grinch.datasets.readers import CSV, LIBSVM, NPY, NPZ, TSV, Labelled, read, read_clinc150, read_speaker_digits

ALL = slice(None)


class Description(NamedTuple):
    """A data set: what it is, where it comes from, and how it is read."""

    name: str
    stands_for: str
    """What it is, or what it stands for in the paper."""
    where: str
    """Where to get it."""
    files: tuple[str, ...] = ()
    """File names looked for, the first one found is read."""
    format: str = NPZ
    reader: Callable[[Path], Labelled] = read
    standardise: slice | None = None
    """Columns brought to mean 0 and deviation 1: where they are measured in different units."""
    in_sklearn: bool = False
    """Whether scikit-learn ships or fetches it."""


def _uci(name: str, what: str, number: int, standardise: slice | None = None) -> Description:
    found = (f"{name}.npz", f"{name}.csv")
    where = f"https://archive.ics.uci.edu/dataset/{number}"
    return Description(name, what, where, found, f"{NPZ}; or {CSV}", standardise=standardise)


def _perch(n_features: int) -> Description:
    name = f"separated-{n_features}"
    what = f"the separated data of PERCH: 50 compact classes in {n_features} dimensions"
    where = "https://github.com/iesl/xcluster"
    return Description(name, what, where, (f"{name}.npz", f"{name}.tsv"), f"{NPZ}; or {TSV}")


def _shipped(name: str, what: str, standardise: slice | None = None) -> Description:
    return Description(name, what, "comes with scikit-learn", standardise=standardise, in_sklearn=True)


_SPEAKER = ("audiomnist_resemblyzer256.npz",)
_AUDIOMNIST = "https://github.com/soerenab/AudioMNIST, as 256 numbers a recording by the project Resemblyzer"

_DESCRIPTIONS = (
    Description(
        "aloi",
        "the paper's ALOI: 108,000 pictures of 1,000 objects",
        "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html#aloi",
        ("aloi.npz", "aloi.scale", "aloi.scale.bz2", "aloi", "aloi.bz2", "aloi.tsv", "aloi.csv"),
        "; or ".join([NPZ, LIBSVM, TSV, CSV]),
    ),
    Description(
        "covtype",
        "the paper's CovType: kinds of forest",
        "https://archive.ics.uci.edu/dataset/31",
        ("covtype.npz", "covtype20k.npz"),
        standardise=slice(0, 10),
        in_sklearn=True,
    ),
    Description(
        "ilsvrc12",
        "the paper's ILSVRC12: features of 50,000 photographs",
        "https://www.image-net.org, as the last layer of a network of your choice",
        ("ilsvrc12.npz", "ilsvrc12.npy"),
        f"{NPZ}; or {NPY}",
    ),
    Description(
        "tiny_imagenet",
        "stands for the paper's ILSVRC12 and ImageNet: features of 50,000 photographs, 200 classes",
        "http://cs231n.stanford.edu/tiny-imagenet-200.zip, as 128 principal components of EfficientNet-Lite0",
        ("tiny_imagenet50k_efflite0_pca128.npz", "tiny_imagenet.npz"),
    ),
    Description("speaker", "stands for the paper's Speaker: 30,000 recordings of 60 speakers", _AUDIOMNIST, _SPEAKER),
    Description(
        "speaker_digits",
        "stands for the paper's ALOI, as many small compact classes: 60 speakers x 10 digits",
        _AUDIOMNIST,
        _SPEAKER,
        ".npz with the arrays X, y (speaker) and digit",
        read_speaker_digits,
    ),
    _uci("glass", "glass found at scenes of crime, by its chemistry", 42, ALL),
    _uci("pendigits", "digits written with a pen", 81),
    _uci("segment", "patches of outdoor photographs", 50, ALL),
    _uci("shuttle", "sensors of the space shuttle, classes of very unequal size", 148, ALL),
    Description("mnist", "70,000 handwritten digits", "https://www.openml.org/d/554", ("mnist.npz",), in_sklearn=True),
    Description(
        "usps",
        "handwritten digits from envelopes",
        "https://cs.nyu.edu/~roweis/data.html",
        ("usps11000.npz", "usps.npz"),
    ),
    Description(
        "coil20",
        "20 objects on a turntable: small compact classes, as in ALOI",
        "https://cave.cs.columbia.edu/repository/COIL-20",
        ("coil20.npz",),
    ),
    Description(
        "orl_faces", "10 photographs each of 40 faces", "https://cam-orl.co.uk/facedatabase.html", ("orl_faces.npz",)
    ),
    Description(
        "clinc150",
        "sentences to an assistant, 150 intents",
        "https://github.com/clinc/oos-eval, as 384 numbers a sentence by all-MiniLM-L6-v2",
        ("clinc150_minilm384.npz", "clinc150.npz"),
        ".npz with the arrays X and y (names of intents, or their positions in an array classes)",
        read_clinc150,
    ),
    *map(_perch, (2, 10, 100)),
    _shipped("digits", "1,797 small images of handwritten digits"),
    _shipped("iris", "150 irises of 3 species"),
    _shipped("wine", "178 wines of 3 growers, by their chemistry", ALL),
    _shipped("breast_cancer", "569 tumours, benign or malignant", ALL),
)

CATALOG = {description.name: description for description in _DESCRIPTIONS}
