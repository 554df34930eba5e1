"""What comes in and goes out of the service as JSON."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

LARGEST = 2**31 - 1
# Entries of a list; it is not read further than that.
MOST = 100_000
SMALLEST_ID, LARGEST_ID = -(2**63), 2**63 - 1

# The first thing that is wrong is enough to say; there could be millions.
Row = Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1, fail_fast=True)]
Rows = Annotated[
    list[Row],
    Field(description="A row of numbers for each point, all of the same length.", max_length=MOST, fail_fast=True),
]
PointId = Annotated[int, Field(ge=SMALLEST_ID, le=LARGEST_ID)] | Annotated[str, Field(max_length=1_000)]
PointIds = Annotated[
    list[PointId], Field(description="Texts, or whole numbers, each once.", max_length=MOST, fail_fast=True)
]
Payload = Annotated[
    list[Any], Field(description="Anything that JSON can hold for each point, or null.", max_length=MOST)
]
CutName = Annotated[str, Field(min_length=1, max_length=300, description="The name of a cut.")]


class Given(BaseModel):
    """What is sent: nothing is converted, and nothing that is unknown is passed over."""

    model_config = ConfigDict(strict=True, extra="forbid")


class PointsGiven(Given):
    """Points to insert; ids for all points of a store or for none."""

    X: Rows
    ids: PointIds | None = None
    payload: Payload | None = None


class UpdateGiven(Given):
    """Other rows, another payload, or both, for points that are there."""

    ids: PointIds
    X: Rows | None = None
    payload: Payload | None = None


class IdsGiven(Given):
    """Points by their ids."""

    ids: PointIds


class RowsGiven(Given):
    """Points that are to be placed."""

    X: Rows
    cut: CutName = "default"


class LabelGiven(Given):
    """A name for a cluster; null takes it away."""

    cluster: int = Field(ge=0, le=LARGEST)
    name: Annotated[str, Field(min_length=1, max_length=1_000)] | None
    cut: CutName = "default"


class RefineGiven(Given):
    """How often the tree is gone through."""

    passes: int = Field(default=1, ge=1, le=100)


class CutGiven(Given):
    """A cut to follow: into a number of clusters, at a threshold, or with neither of them automatic."""

    name: CutName
    n_clusters: int | None = Field(default=None, ge=1, le=LARGEST)
    threshold: float | None = Field(default=None, allow_inf_nan=False)
    cut: Literal["sizeable", "height"] | None = None
    layer: Literal["auto", "fine", "coarse"] | Annotated[int, Field(ge=0, le=LARGEST)] | None = None


class CutNamed(Given):
    """A cut by its name."""

    name: CutName


class Problem(BaseModel):
    """What is wrong with a request, or was inside."""

    error: str


class Changed(BaseModel):
    """The version after a change; that of before, if there was nothing to do."""

    version: int


class Inserted(Changed):
    """The ids of the points that were inserted, in their order; numbers where they have none."""

    ids: list[int | str]


class Predicted(BaseModel):
    """The id of the cluster that each point would join; -1 for none."""

    version: int
    clusters: list[int]


class Labels(BaseModel):
    """The cluster of each point, in the order of the ids."""

    version: int
    labels: list[int]


class Cluster(BaseModel):
    """A cluster: its id stays with it."""

    cluster: int
    name: str | None
    size: int
    ids: list[int | str]


class Clusters(BaseModel):
    """The clusters of a cut, in the order of their ids."""

    version: int
    cut: str
    clusters: list[Cluster]


class Names(BaseModel):
    """The names of clusters, by cluster id."""

    version: int
    cut: str
    names: dict[str, str]


class Ids(BaseModel):
    """The ids of points, in the order they came; ``total`` is how many there are."""

    version: int
    total: int
    ids: list[int | str]


class Payloads(BaseModel):
    """What is kept beside points."""

    version: int
    payload: list[Any]


class Vectors(BaseModel):
    """The points themselves."""

    version: int
    X: list[list[float]]


class ChangeSeen(BaseModel):
    """Something that happened to a cluster."""

    version: int
    cut: str
    kind: str
    cluster: int
    others: list[int]
    size: int
    count: int
    exemplars: list[int | str]


class Changes(BaseModel):
    """What happened after a version, up to ``until``; where ``more``, ask again since then."""

    version: int
    until: int
    more: bool
    changes: list[ChangeSeen]


class Info(BaseModel):
    """What is served."""

    model_config = ConfigDict(extra="allow")

    kind: Literal["store", "model", "tree"]
    points: int
    version: int


class TreeNodes(BaseModel):
    """All nodes of the tree: leaves first, in the order of the ids; -1 where there is nothing."""

    version: int
    node: list[int]
    parent: list[int]
    left: list[int]
    right: list[int]
    size: list[int]
    height: list[float | None]


class Health(BaseModel):
    """Whether the service is there."""

    status: Literal["alive", "ready", "ending"]
