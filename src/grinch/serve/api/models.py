"""The JSON of requests and answers of the service."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field

MAX_INT = 2**31 - 1
# Entries of a list; further ones are not parsed.
MAX_ENTRIES = 100_000
MIN_ID, MAX_ID = -(2**63), 2**63 - 1

# The first error is enough; there could be millions.
Row = Annotated[list[Annotated[float, Field(allow_inf_nan=False)]], Field(min_length=1, fail_fast=True)]
Rows = Annotated[
    list[Row],
    Field(
        description="A row of numbers for each point, all of the same length.", max_length=MAX_ENTRIES, fail_fast=True
    ),
]
PointId = Annotated[int, Field(ge=MIN_ID, le=MAX_ID)] | Annotated[str, Field(max_length=1_000)]
PointIds = Annotated[
    list[PointId], Field(description="Texts, or whole numbers, each once.", max_length=MAX_ENTRIES, fail_fast=True)
]
Payload = Annotated[
    list[Any], Field(description="Anything that JSON can hold for each point, or null.", max_length=MAX_ENTRIES)
]
# Parameters in the address of a request.
Version = Annotated[int | None, Query(ge=0, le=MAX_INT, description="The version that node numbers are of.")]
Node = Annotated[int, Path(ge=0, le=MAX_INT, description="The number of a node in that version.")]
Offset = Annotated[int, Query(ge=0, le=MAX_INT)]
MemberLimit = Annotated[int, Query(ge=1, le=200)]
Words = Annotated[str, Query(max_length=300)]
HitLimit = Annotated[int, Query(ge=1, le=100)]
CutName = Annotated[str, Field(min_length=1, max_length=300, description="The name of a cut.")]


class Given(BaseModel):
    """A request: nothing is converted, and unknown fields are refused."""

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
    """A name for a cluster; null removes it."""

    cluster: int = Field(ge=0, le=MAX_INT)
    name: Annotated[str, Field(min_length=1, max_length=1_000)] | None
    cut: CutName = "default"


class RefineGiven(Given):
    """The number of passes over the tree."""

    passes: int = Field(default=1, ge=1, le=100)


class CutGiven(Given):
    """A cut to track: into a number of clusters, at a threshold, or automatic without either."""

    name: CutName
    n_clusters: int | None = Field(default=None, ge=1, le=MAX_INT)
    threshold: float | None = Field(default=None, allow_inf_nan=False)
    cut: Literal["sizeable", "height"] | None = None
    layer: Literal["auto", "fine", "coarse"] | Annotated[int, Field(ge=0, le=MAX_INT)] | None = None


class CutNamed(Given):
    """A cut by its name."""

    name: CutName


class Problem(BaseModel):
    """An error of a request, or of the service."""

    error: str


class Versioned(BaseModel):
    """An answer, and the version that it is of."""

    version: int


class Changed(Versioned):
    """The version after a change; the same as before if there was nothing to do."""


class Inserted(Changed):
    """The ids of the points that were inserted, in their order; numbers where they have none."""

    ids: list[int | str]


class Predicted(Versioned):
    """The id of the cluster that each point would join; -1 for none."""

    clusters: list[int]


class Labels(Versioned):
    """The cluster of each point, in the order of the ids."""

    labels: list[int]


class Cluster(BaseModel):
    """A cluster: its id stays with it."""

    cluster: int
    name: str | None
    size: int
    ids: list[int | str]


class Clusters(Versioned):
    """The clusters of a cut, in the order of their ids."""

    cut: str
    clusters: list[Cluster]


class Names(Versioned):
    """The names of clusters, by cluster id."""

    cut: str
    names: dict[str, str]


class Ids(Versioned):
    """The ids of points, in the order they came; ``total`` is their number."""

    total: int
    ids: list[int | str]


class Payloads(Versioned):
    """The payload of points."""

    payload: list[Any]


class Vectors(Versioned):
    """The points themselves."""

    X: list[list[float]]


class ChangeSeen(Versioned):
    """A change of a cluster."""

    cut: str
    kind: str
    cluster: int
    others: list[int]
    size: int
    count: int
    exemplars: list[int | str]


class Changes(Versioned):
    """Changes after a version, up to ``until``; with ``more``, ask again since then."""

    until: int
    more: bool
    changes: list[ChangeSeen]


class EventSeen(BaseModel):
    """Something that happened to a cluster, in a sentence."""

    kind: str
    cluster: int
    others: list[int]
    size: int
    before: int
    title: str
    text: str


class News(Versioned):
    """The news since a version: the most important events, and the number of all others by kind."""

    since: int
    n_new: int
    events: list[EventSeen]
    rest: dict[str, int]


class Info(Versioned):
    """A description of what is served."""

    model_config = ConfigDict(extra="allow")

    kind: Literal["store", "model", "tree"]
    points: int


class TreeNodes(Versioned):
    """All nodes of the tree: leaves first, in the order of the ids; -1 for none."""

    node: list[int]
    parent: list[int]
    left: list[int]
    right: list[int]
    size: list[int]
    height: list[float | None]


class Health(BaseModel):
    """The state of the service."""

    status: Literal["alive", "ready", "ending"]
