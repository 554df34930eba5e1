"""Ready embeddings, found by name."""

from __future__ import annotations

import sys
from types import ModuleType

import numpy as np
import pytest

from grinch.text import EncodedTexts, TextVectors, find_encoder
from grinch.text.encoders import saved_encoder
from refusals import refused


class Lengths:
    def encode(self, texts):
        return [[len(text), 1] for text in texts]


class Needy:
    def __init__(self, name):
        self.name = name


@pytest.fixture
def module(monkeypatch):
    module = ModuleType("of_mine")
    module.ready, module.kind, module.make, module.needy = Lengths(), Lengths, lambda: Lengths(), Needy
    module.number, module.useless = 3, lambda: 3
    monkeypatch.setitem(sys.modules, "of_mine", module)
    return module


@pytest.mark.parametrize("name", ["of_mine:ready", "of_mine:kind", "of_mine:make"])
def test_an_object_a_class_and_a_function_are_found(module, name):
    rows = EncodedTexts(find_encoder(name), name).fit_transform(["a", "abc", None])
    assert rows.dtype == np.float32
    assert rows.tolist() == [[1, 1], [3, 1], [0, 1]]


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("of_mine:nothing", "cannot be imported: AttributeError"),
        ("no_such_module:x", "cannot be imported: ModuleNotFoundError"),
        ("of_mine:needy", "called without arguments"),
        ("of_mine:number", "must have a method encode; it is 3"),
        ("of_mine:useless", "must have a method encode; it is 3"),
        ("of_mine", "module:object"),
        ("of_mine:", "module:object"),
    ],
)
def test_what_is_no_encoder_is_refused(module, name, complaint):
    refused(complaint, find_encoder, name)


def test_models_of_sentence_transformers_are_found_late(monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(ImportError, match="pip install sentence-transformers"):
        find_encoder("sentence-transformers/all-MiniLM-L6-v2")
    installed = ModuleType("sentence_transformers")
    installed.SentenceTransformer = Needy
    monkeypatch.setitem(sys.modules, "sentence_transformers", installed)
    assert find_encoder("someone/model").name == "someone/model"


def test_what_encode_returns_is_checked():
    class Flat:
        def encode(self, texts):
            return np.zeros(len(texts))

    refused("a row of numbers for each of the 2 texts", EncodedTexts(Flat()).transform, ["a", "b"])
    refused("encoder must have a method encode", EncodedTexts, 3)


def test_a_file_remembers_the_name_alone(tmp_path):
    path = tmp_path / "text.grinch"
    EncodedTexts(Lengths(), "of_mine:ready").save(path)
    assert saved_encoder(path) == "of_mine:ready"
    refused("holds embeddings", TextVectors.load, path)
    TextVectors().fit(["some words"]).save(path)
    assert saved_encoder(path) is None
