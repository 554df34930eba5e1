"""The linkages that come with grinch, each against an independent computation."""

from __future__ import annotations

import itertools
import math
import pickle

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.sparse import csr_matrix
from scipy.spatial.distance import cdist
from scipy.special import betaln
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score

from dense_linkages import DENSE_NAMES, score_by_hand
from effort import at_night
from grinch import Grinch
from grinch.linkage import Bayesian, BetaBernoulli, Learned, NormalGamma, Pairwise, VectorMeans, WeightedSum, WithRules
from grinch.linkage.learned import predictor
from grinch.neighbors import ByKey
from refusals import refused

REDUCE = {"single": np.max, "complete": np.min, "average": np.mean}


def every_merge(model):
    """The two groups of every merge of a tree, as positions, and its score."""
    tree = model.tree_
    for v in tree.nodes():
        if not tree.is_leaf(v):
            left, right = tree.children(v)
            yield tree.leaves(left), tree.leaves(right), tree.scores[v]


# Pairwise ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["fast", "exact"])
@pytest.mark.parametrize("metric", ["euclidean", at_night("cityblock"), "cosine", at_night("canberra")])
@pytest.mark.parametrize("name", ["single", "complete", "average"])
def test_pairwise_scores_are_those_of_all_pairs(rng, name, metric, mode):
    X = rng.normal(size=(40, 4)) + 2
    distances = cdist(X, X, metric)
    linkage = Pairwise(name, distance=metric)
    models = [Grinch(linkage=linkage, mode=mode).fit(list(X))]
    if (name, metric) != ("average", "cosine"):  # by name, that is the mean similarity, compiled
        models.append(Grinch(linkage=name, metric=metric, mode=mode).fit(X))
    for model in models:
        for a, b, score in every_merge(model):
            assert score == pytest.approx(REDUCE[name](-distances[np.ix_(a, b)]), rel=1e-9)


def test_pairwise_of_a_function_on_records(rng):
    words = ["".join(rng.choice(list("abc"), rng.integers(1, 8))) for _ in range(30)]

    def alike(x, y):
        return len(set(x) & set(y)) / len(set(x) | set(y)) - abs(len(x) - len(y)) / 10

    for kind in REDUCE:
        model = Grinch(linkage=Pairwise(kind, similarity=alike), mode="exact").fit(words)
        for a, b, score in every_merge(model):
            pairs = [alike(words[i], words[j]) for i, j in itertools.product(a, b)]
            assert score == pytest.approx(REDUCE[kind](pairs))


class Naive(Pairwise):
    """What it would cost to measure all pairs of every two groups that are asked about."""

    pairs_asked = 0

    def score(self, a, b):
        self.pairs_asked += len(a) * len(b)
        return super().score(a, b)


@pytest.mark.parametrize("kind", ["single", "complete"])
def test_pairwise_does_not_rebuild_all_pairs(rng, kind):
    X = list(rng.normal(size=(100, 4)))
    linkage = Naive(kind, distance="euclidean")
    tree = Grinch(linkage=linkage).fit(X).tree_
    assert linkage.pairs_computed < linkage.pairs_asked / 1.8
    forgetful = Pairwise(kind, distance="euclidean", remember=0)
    assert Grinch(linkage=forgetful).fit(X).tree_.to_newick() == tree.to_newick()


class Counted:
    """A similarity of tuples that counts its calls, and the different pairs among them."""

    def __init__(self):
        self.calls, self.pairs = 0, set()

    def __call__(self, x, y):
        self.calls += 1
        self.pairs.add(frozenset((x, y)))
        return sum(a == b for a, b in zip(x[:4], y[:4], strict=True)) - abs(x[4] - y[4])


def matched_by_four_keys(rng, n):
    """Records in fours of a kind, each with one of four fields changed; and candidates by each of the fields."""
    rows = rng.integers(0, 12, (n // 4, 4)).repeat(4, axis=0)
    rows[np.arange(n), rng.integers(0, 4, n)] = rng.integers(0, 12, n)
    records = [(*row, float(x)) for row, x in zip(rows.tolist(), rng.random(n), strict=True)]
    return records, [ByKey(lambda record, i=i: record[i], most=20) for i in range(4)]


@pytest.mark.parametrize("kind", REDUCE)
def test_a_pair_of_records_is_measured_once(rng, kind):
    records, search = matched_by_four_keys(rng, 60)
    once, again = Counted(), Counted()
    linkage = Pairwise(kind, similarity=once)
    model = Grinch(linkage=linkage, search=search).fit(records)
    assert once.calls == len(once.pairs) == linkage.pairs_computed
    linkage = Pairwise(kind, similarity=again)
    linkage._measured = Forgetful()
    without = Grinch(linkage=linkage, search=search).fit(records)
    assert again.calls > 5 * once.calls
    assert again.pairs == once.pairs
    np.testing.assert_array_equal(model.tree_.scores, without.tree_.scores)
    assert model.tree_.to_newick() == without.tree_.to_newick()


class Forgetful(dict):
    """Keeps nothing: what the linkage did before it remembered pairs."""

    def __setitem__(self, key, value):
        pass


def test_pairwise_remembers_no_more_than_it_may(rng):
    records, search = matched_by_four_keys(rng, 32)
    for remember in (0, 1, 7, 100):
        linkage = Pairwise("complete", similarity=Counted(), remember=remember)
        Grinch(linkage=linkage, search=search).fit(records)
        assert len(linkage._measured) <= remember
        assert len(linkage._known) <= remember
    for remember in (-1, 1.5, True):
        with pytest.raises(ValueError, match="remember must be a whole number of at least 0; got"):
            Pairwise("complete", similarity=Counted(), remember=remember)


def test_single_linkage_finds_what_scipy_finds(rng):
    """Two rings: single linkage joins each of them."""
    angles = rng.random(120) * 2 * np.pi
    radius = np.repeat([1.0, 5.0], 60)
    X = (radius * np.array([np.cos(angles), np.sin(angles)])).T
    model = Grinch(linkage="single", mode="exact", n_clusters=2).fit(X)
    assert adjusted_rand_score(radius, model.labels_) == 1.0


def test_pairwise_wants_one_measure():
    refused(r"give one of similarity= .* and distance=", Pairwise, "single")
    refused("kind must be one of 'single', 'complete', 'average'; got 'mean'", Pairwise, "mean", distance="euclidean")
    with pytest.raises(ValueError, match=r"distance must be one of .*; got 'euclid'; did you mean 'euclidean'"):
        Pairwise("single", distance="euclid")


# Bayesian ------------------------------------------------------------------------------------------------------------


def test_beta_bernoulli_marginal_is_the_integral():
    family = BetaBernoulli(0.7, 1.3)
    rows = np.array([[1, 0], [1, 1], [0, 1], [1, 1]])
    found = family.log_marginal(rows.sum(axis=0), 4)[0]
    expected = 0.0
    for column in rows.T:
        ones = column.sum()
        value, _ = integrate.quad(lambda p, k=ones: p**k * (1 - p) ** (4 - k) * stats.beta(0.7, 1.3).pdf(p), 0, 1)
        expected += math.log(value)
    assert found == pytest.approx(expected, rel=1e-6)


def test_normal_gamma_marginal_is_a_chain_of_student_predictions(rng):
    """p(x1 … xn) is the product of the predictive densities, each a Student t of the posterior so far."""
    family = NormalGamma(mean=0.3, strength=0.5, shape=1.5, rate=2.0)
    x = rng.normal(size=7)
    mean, strength, shape, rate = 0.3, 0.5, 1.5, 2.0
    expected = 0.0
    for value in x:
        scale = math.sqrt(rate * (strength + 1) / (shape * strength))
        expected += stats.t(2 * shape, mean, scale).logpdf(value)
        rate += strength * (value - mean) ** 2 / (2 * (strength + 1))
        mean = (strength * mean + value) / (strength + 1)
        strength, shape = strength + 1, shape + 0.5
    summed = np.sum([family.statistics([value]) for value in x], axis=0)
    assert family.log_marginal(summed, 7)[0] == pytest.approx(expected)


def direct_odds(tree, rows, alpha, a, b):
    """Log-odds of every merge, by the recursions of Heller and Ghahramani written out with plain numbers."""

    def marginal(points):
        ones = rows[points].sum(axis=0)
        return math.exp((betaln(a + ones, b + len(points) - ones) - betaln(a, b)).sum())

    weight, evidence, odds = {}, {}, {}
    for v in tree.preorder()[::-1].tolist():
        points = tree.leaves(v)
        if tree.is_leaf(v):
            weight[v], evidence[v] = alpha, marginal(points)
            continue
        left, right = tree.children(v)
        own = alpha * math.gamma(len(points))
        weight[v] = own + weight[left] * weight[right]
        prior = own / weight[v]
        together, apart = prior * marginal(points), (1 - prior) * evidence[left] * evidence[right]
        evidence[v] = together + apart
        odds[v] = math.log(together / apart)
    return odds


def test_bayesian_score_is_the_log_odds_of_the_merge(rng):
    rows = (rng.random((14, 5)) < np.repeat([[0.9], [0.1]], 7, axis=0)).astype(float)
    linkage = Bayesian(BetaBernoulli(0.8, 0.6), alpha=1.5)
    tree = Grinch(linkage=linkage, mode="exact").fit(rows).tree_
    for v, expected in direct_odds(tree, rows, 1.5, 0.8, 0.6).items():
        assert tree.scores[v] == pytest.approx(expected, rel=1e-9)


def test_bayesian_cut_at_one_half_finds_the_clusters(rng):
    y = rng.integers(0, 3, 60)
    X = 6 * np.eye(3, 4)[y] + rng.normal(size=(60, 4))
    model = Grinch(linkage=Bayesian(NormalGamma()), threshold=0.0).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95


@pytest.mark.parametrize("family", [NormalGamma(), BetaBernoulli()])
def test_bayesian_batches_are_the_same(rng, family):
    linkage = Bayesian(family)
    leaves = [linkage.leaf(x) for x in rng.integers(0, 2, size=(9, 3)).astype(float)]
    group = linkage.merge(linkage.merge(leaves[0], leaves[1]), leaves[2])
    np.testing.assert_allclose(linkage.scores(group, leaves[3:]), [linkage.score(group, b) for b in leaves[3:]])


def test_bayesian_refuses_what_it_is_not_for():
    refused("BetaBernoulli is for binary features", Grinch(linkage=Bayesian(BetaBernoulli())).fit, [[0.5, 1.0]])
    for make in (
        lambda: BetaBernoulli(a=0),
        lambda: BetaBernoulli(b=float("nan")),
        lambda: NormalGamma(rate=-1),
        lambda: NormalGamma(strength=float("inf")),
        lambda: Bayesian(BetaBernoulli(), alpha=0),
    ):
        refused("must be a positive number; got", make)
    refused("mean must be a finite number; got nan", NormalGamma, mean=float("nan"))


# Learned -------------------------------------------------------------------------------------------------------------


def gaps(a, others):
    """Two features of two groups of vectors: the squared distance of the means, and the number of members."""
    return np.array([[((a.mean - b.mean) ** 2).sum(), a.n + b.n] for b in others])


def labelled_pairs(rng, X, y):
    means = VectorMeans("centroid")
    i, j = rng.integers(0, len(X), (2, 300))
    rows = np.vstack([gaps(means.leaf(X[p]), [means.leaf(X[q])]) for p, q in zip(i, j, strict=True)])
    return rows, (y[i] == y[j]).astype(int)


@pytest.mark.parametrize(
    "model",
    [LogisticRegression(), HistGradientBoostingClassifier(max_iter=10), RandomForestRegressor(n_estimators=3)],
    ids=lambda model: type(model).__name__,
)
def test_learned_linkages_cluster_what_they_were_taught(rng, model):
    y = rng.integers(0, 3, 30)
    X = 8 * np.eye(3)[y] + rng.normal(size=(30, 3))
    rows, same = labelled_pairs(rng, X, y)
    model.fit(rows, same)
    learned = Learned(model, VectorMeans("centroid"), gaps)
    found = Grinch(linkage=learned, n_clusters=3).fit(list(X))
    assert adjusted_rand_score(y, found.labels_) > 0.95
    # The score is the model's own output.
    a, b, score = next(iter(every_merge(found)))
    assert np.isfinite(score)
    groups = []
    for positions in (a, b):
        leaves = [learned.leaf(X[i]) for i in positions]
        total = leaves[0]
        for leaf in leaves[1:]:
            total = learned.merge(total, leaf)
        groups.append(total)
    features = gaps(groups[0], [groups[1]])
    direct = {
        "LogisticRegression": lambda: model.decision_function(features)[0],
        "HistGradientBoostingClassifier": lambda: model.decision_function(features)[0],
        "RandomForestRegressor": lambda: model.predict(features)[0],
    }[type(model).__name__]()
    assert score == pytest.approx(direct, rel=1e-6)
    assert pickle.loads(pickle.dumps(learned)).score(*groups) == pytest.approx(learned.score(*groups))


def test_a_model_is_asked_in_the_cheapest_way():
    class Booster:
        def predict(self, rows):
            return rows[:, 0] * 2

    class Wrapped:
        booster_ = Booster()

        def predict_proba(self, rows):
            raise AssertionError("the wrapper is slow")

    class Probable:
        def predict_proba(self, rows):
            return np.column_stack([1 - rows[:, 0], rows[:, 0]])

    rows = np.array([[0.25], [0.75]])
    assert predictor(Wrapped())(rows).tolist() == [0.5, 1.5]
    assert predictor(Probable())(rows).tolist() == [0.25, 0.75]
    assert predictor(lambda rows: rows[:, 0])(rows).tolist() == [0.25, 0.75]
    refused("model must be a function of a matrix, or have decision_function", predictor, object(), error=TypeError)


# Rules ---------------------------------------------------------------------------------------------------------------


def test_rules_outweigh_the_linkage():
    near = Pairwise("average", distance=lambda x, y: abs(x["at"] - y["at"]))
    ruled = WithRules(
        near,
        must=[lambda r: r.get("orcid")],
        cannot_share=[lambda r: r.get("paper")],
        cannot_differ=[lambda r: r.get("born")],
    )

    def score(a, b):
        return ruled.score(ruled.leaf(a), ruled.leaf(b))

    assert score({"at": 1}, {"at": 4}) == -3
    assert score({"at": 1, "orcid": "x"}, {"at": 4, "orcid": "x"}) == 1e6 - 3
    assert score({"at": 1, "orcid": "x"}, {"at": 4, "orcid": "y"}) == -3
    assert score({"at": 1, "paper": 7}, {"at": 4, "paper": 7}) == -1e6 - 3
    assert score({"at": 1, "born": 1950}, {"at": 4, "born": 1960}) == -1e6 - 3
    assert score({"at": 1, "born": 1950}, {"at": 4, "born": 1950}) == -3
    assert score({"at": 1, "orcid": "x", "paper": 7}, {"at": 4, "orcid": "x", "paper": 7}) == -1e6 - 3
    group = ruled.merge(ruled.leaf({"at": 1, "orcid": "x"}), ruled.leaf({"at": 3, "paper": 7}))
    others = [ruled.leaf({"at": 2, "orcid": "x"}), ruled.leaf({"at": 2, "paper": 7}), ruled.leaf({"at": 5})]
    assert ruled.scores(group, others).tolist() == [1e6 - 1, -1e6 - 1, -3]
    assert [ruled.score(group, b) for b in others] == ruled.scores(group, others).tolist()


def test_rules_hold_in_the_clusters(rng):
    records = [{"at": float(x), "orcid": int(i % 15), "paper": int(i % 2)} for i, x in enumerate(rng.normal(size=45))]
    near = Pairwise("average", distance=lambda x, y: abs(x["at"] - y["at"]))
    must = WithRules(near, must=[lambda r: r["orcid"]])
    model = Grinch(linkage=must, mode="exact", threshold=1000.0).fit(records)
    assert adjusted_rand_score([r["orcid"] for r in records], model.labels_) == 1.0
    cannot = WithRules(near, cannot_differ=[lambda r: r["paper"]])
    model = Grinch(linkage=cannot, mode="exact", threshold=-1000.0).fit(records)
    for cluster in model.clusters_:
        assert len({records[i]["paper"] for i in cluster}) == 1
    assert len(model.clusters_) == 2


# Sums ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "metric"), DENSE_NAMES)
@pytest.mark.parametrize("sparse", [False, True])
def test_vector_means_are_the_brute_force_values(rng, name, metric, sparse):
    X = rng.normal(size=(14, 5)) + 1
    linkage = VectorMeans(name, metric)
    rows = [csr_matrix(x[None]) for x in X] if sparse else list(X)
    for a, b, score in every_merge(Grinch(linkage=linkage).fit(rows)):
        assert score == pytest.approx(score_by_hand(name, metric, X[a], X[b]), rel=1e-9, abs=1e-12)


def test_weighted_sums_of_dense_and_sparse_parts(rng):
    X, S = rng.normal(size=(16, 4)) + 1, (rng.random((16, 12)) < 0.3).astype(float)
    S[:, 0] = 1
    records = [{"dense": x, "sparse": csr_matrix(s[None])} for x, s in zip(X, S, strict=True)]
    both = WeightedSum(
        [(0.7, VectorMeans("ward"), lambda r: r["dense"]), (2.0, VectorMeans("cosine"), lambda r: r["sparse"])]
    )
    for a, b, score in every_merge(Grinch(linkage=both).fit(records)):
        expected = 0.7 * score_by_hand("ward", None, X[a], X[b]) + 2.0 * score_by_hand("cosine", None, S[a], S[b])
        assert score == pytest.approx(expected, rel=1e-9)
    leaves = [both.leaf(r) for r in records]
    np.testing.assert_allclose(both.scores(leaves[0], leaves[1:]), [both.score(leaves[0], b) for b in leaves[1:]])


def test_bad_sums():
    refused("parts must hold at least one", WeightedSum, [])
    with pytest.raises(TypeError, match="parts must hold linkages with leaf, merge and score; got 'cosine'"):
        WeightedSum([(1.0, "cosine")])
    refused("name must be one of", VectorMeans, "cosinus")


def test_parts_of_the_wrong_kind_are_named():
    refused(
        "linkage must be an object with leaf, merge and score, or a function; got 'average'",
        WithRules,
        "average",
        error=TypeError,
    )
    with pytest.raises(TypeError, match="must must be a list of functions of a record"):
        WithRules(lambda a, b: 0.0, must=lambda r: 1)
    refused("family must be BetaBernoulli", Bayesian, "normal", error=TypeError)
    refused("parts must be a list of", WeightedSum, [VectorMeans("cosine")], error=TypeError)
    rules = WithRules(lambda a, b: 2.0)
    assert rules.score(rules.leaf(1), rules.leaf(2)) == 2.0
    refused("weight must be a positive number; got nan", WithRules, lambda a, b: 2.0, weight=float("nan"))
    refused("parts must have finite numbers as weights; got nan", WeightedSum, [(float("nan"), VectorMeans("cosine"))])
