"""Topics whose numbers stay, by themselves and in BERTopic."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from grinch import Grinch
from grinch.integrations.bertopic import GrinchTopics

WORDS = ("rain wind storm", "goal match team", "vote party poll", "stock bank money", "virus doctor health")


def batches(n=600, centers=5):
    X, y = make_blobs(n, n_features=8, centers=centers, cluster_std=0.6, random_state=0)
    # The last topic comes with the last batch.
    order = np.argsort(y == centers - 1, kind="stable")
    return [(X[part], y[part]) for part in np.array_split(order, 3)]


def test_topics_keep_their_numbers_from_batch_to_batch():
    topics, seen, number = GrinchTopics(), [], {}
    for X, y in batches():
        assert topics.partial_fit(X) is topics
        assert len(topics.labels_) == len(X)
        seen.append((topics.labels_, y))
        for topic in np.unique(topics.labels_):
            own = np.bincount(y[topics.labels_ == topic]).argmax()
            assert number.setdefault(topic, own) == own
    labels, y = map(np.concatenate, zip(*seen, strict=True))
    assert adjusted_rand_score(y, labels) > 0.95
    X = batches()[0][0]

    assert set(topics.predict(X)) <= set(labels.tolist())


def test_fit_begins_again_and_the_given_model_stays_as_it_is():
    given = Grinch(n_clusters=3)
    topics = GrinchTopics(given)
    for X, _ in batches()[:2]:
        assert len(set(topics.fit(X).labels_.tolist())) == 3
    assert topics.model_.tree_.n_leaves == len(X)
    assert not hasattr(given, "tree_")


@pytest.mark.slow
def test_three_batches_in_bertopic():
    bertopic = pytest.importorskip(
        "bertopic", reason="BERTopic is not installed: pip install --no-deps bertopic hdbscan plotly narwhals tqdm"
    )
    from bertopic.dimensionality import BaseDimensionalityReduction
    from bertopic.vectorizers import OnlineCountVectorizer

    rng = np.random.default_rng(1)
    model = bertopic.BERTopic(
        umap_model=BaseDimensionalityReduction(),
        hdbscan_model=GrinchTopics(),
        vectorizer_model=OnlineCountVectorizer(),
        embedding_model=None,
    )
    titles = {}
    for X, y in batches():
        texts = [" ".join(rng.permutation(WORDS[k].split())) for k in y]
        model.partial_fit(texts, embeddings=X)
        assert len(model.topics_) == len(X)
        about = model.get_topic_info()
        for topic in set(model.topics_) - {-1}:
            words = {word for word, _ in model.get_topic(topic)[:3]}
            assert words == set(WORDS[np.bincount(y[np.array(model.topics_) == topic]).argmax()].split())
            assert titles.setdefault(topic, words) == words
        assert about["Count"].sum() > 0
    topics, _ = model.transform(texts[:5], embeddings=X[:5])
    assert list(topics) == list(model.topics_[:5])
    texts = [WORDS[k] for _, y in batches() for k in y]
    X = np.vstack([X for X, _ in batches()])
    whole = bertopic.BERTopic(
        umap_model=BaseDimensionalityReduction(), hdbscan_model=GrinchTopics(), embedding_model=None
    )
    whole.fit_transform(texts, embeddings=X)
    assert len(whole.hierarchical_topics(texts)) == len(set(whole.topics_) - {-1}) - 1
