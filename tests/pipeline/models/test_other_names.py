"""Names of gensim, scikit-learn and tomotopy lead to the names that are used here."""

import copy
import inspect
import pickle

import pytest
from corpusmill import LDA, NMF, Node2Vec, RandomIndexing, Word2Vec, WordVectors
from corpusmill.pipeline.models.other_names import ATTRIBUTES, PARAMETERS, hint_about

MODELS = [LDA, NMF, Word2Vec, Node2Vec, RandomIndexing]
TEXTS = [["a", "b"]]


def names_for(model, table):
    """Return the names that a table explains for a model."""
    return {name for base in model.__mro__ for name in table.get(base.__name__, {})}


def test_a_parameter_of_another_library_is_explained(subtests):
    for model, arguments, parameters, message in [
        (LDA, (), {"num_topics": 10}, "LDA has no parameter 'num_topics': its name is n_components"),
        (LDA, (), {"k": 10}, "LDA has no parameter 'k': its name is n_components"),
        (LDA, (TEXTS,), {"n_components": 10}, r"LDA takes no data: pass the data to fit, as in LDA\(\).fit\(data\)"),
        (LDA, (), {"passes": 10}, "its name is max_iter"),
        (LDA, (), {"alpha": 0.1}, "its name is doc_topic_prior"),
        (NMF, (), {"num_topics": 10}, "NMF has no parameter 'num_topics': its name is n_components"),
        (NMF, (), {"verbose": 1}, r"pass callbacks=\[ProgressLines\(\)\] to fit"),
        (Word2Vec, (TEXTS,), {}, r"takes no data: pass the data to fit, as in Word2Vec\(\)"),
        (Word2Vec, (), {"sentences": TEXTS}, "has no parameter 'sentences': pass the data to fit"),
        (Word2Vec, (), {"workers": 4}, "has no parameter 'workers': use threads"),
        (Word2Vec, (), {"hs": 1}, "hierarchical softmax is not supported"),
        (Node2Vec, (), {"random_state": 4}, "its name is seed, as in gensim"),
        (RandomIndexing, (), {"seed": 4}, "its name is random_state"),
        (RandomIndexing, (), {"dimension": 64}, "RandomIndexing has no parameter 'dimension': its name is vector_size"),
        (RandomIndexing, (), {"n_components": 64}, "its name is vector_size"),
        (RandomIndexing, (), {"epochs": 2}, "retrain is the number of further ones"),
        (LDA, (), {"iterations": 50}, "leave it out: it limits the inference of one document; .* epochs is max_iter"),
        (LDA, (), {"warm_start": True}, "pass the same run and a higher number of epochs to fit"),
        (LDA, (), {"vocabulary": ["sea"]}, "pass vocabulary to ingest, or to fit with a matrix"),
        (NMF, (), {"stop_words": "english"}, "choose the vocabulary with"),
        (NMF, (), {"alpha": 0.1}, "its names are alpha_W and alpha_H"),
        (LDA, (), {"n_iter": 10}, "its name is max_iter"),
        (Node2Vec, (), {"walks_per_node": 10}, "its name is num_walks"),
        (LDA, (), {"topics": 100}, "unexpected keyword argument 'topics'"),
    ]:
        with subtests.test(message), pytest.raises(TypeError, match=message):
            model(*arguments, **parameters)


def test_set_params_explains_a_parameter_of_another_library():
    with pytest.raises(ValueError, match=r"^LDA has no parameter 'num_topics': its name is n_components$"):
        LDA().set_params(num_topics=10)


def test_every_parameter_of_their_class_is_accepted_or_explained(subtests):
    import gensim
    import sklearn.decomposition

    for theirs, ours in [
        (gensim.models.Word2Vec, Word2Vec),
        (gensim.models.LdaModel, LDA),
        (sklearn.decomposition.LatentDirichletAllocation, LDA),
        (sklearn.decomposition.NMF, NMF),
    ]:
        with subtests.test(theirs.__name__):
            names = set(inspect.signature(theirs).parameters)
            assert names <= set(inspect.signature(ours).parameters) | names_for(ours, PARAMETERS)


def test_defaults_of_word2vec_are_those_of_gensim():
    import gensim

    theirs = inspect.signature(gensim.models.Word2Vec).parameters
    ours = inspect.signature(Word2Vec).parameters
    assert {name: theirs[name].default for name in theirs.keys() & ours} == {
        name: ours[name].default for name in theirs.keys() & ours
    }


def test_a_method_of_another_library_does_not_exist_and_is_explained(subtests):
    for model, name, message in [
        (LDA, "show_topics", r"LDA has no show_topics: topics\(n\) has the n heaviest words"),
        (NMF, "get_document_topics", "transform returns"),
        (LDA, "log_perplexity", "score returns the log-likelihood per token of held-out documents"),
        (NMF, "log_perplexity", "and minus the error of a matrix"),
        (Word2Vec, "build_vocab", "Word2Vec has no build_vocab: fit counts the words"),
        (Word2Vec, "train", "fit trains a new model"),
        (RandomIndexing, "score", "no likelihood"),
        (LDA, "num_topics", "LDA has no num_topics: its name is n_components"),
        (LDA, "alpha", "doc_topic_prior_ has the prior of each topic"),
        (Word2Vec, "predict_output_word", r"wv\.most_similar returns words"),
        (Word2Vec, "workers", "use threads"),
        (LDA, "colour", "'LDA' object has no attribute 'colour'"),
        (LDA, "words_", "this LDA is not fitted: call fit first"),
    ]:
        with subtests.test(f"{model.__name__}.{name}"):
            assert not hasattr(model(), name)
            with pytest.raises(AttributeError, match=message):
                getattr(model(), name)


def test_a_name_of_keyed_vectors_is_explained():
    vectors = WordVectors(["sea"], [[1.0, 0.0]])
    with pytest.raises(AttributeError, match="WordVectors has no index2word: its name is index_to_key, as in gensim 4"):
        _ = vectors.index2word
    with pytest.raises(AttributeError, match="'WordVectors' object has no attribute 'colour'"):
        _ = vectors.colour
    assert not [name for name in ATTRIBUTES["WordVectors"] if hasattr(vectors, name)]
    assert pickle.loads(pickle.dumps(vectors))["sea"].tolist() == [1.0, 0.0]


def test_only_names_that_a_model_does_not_have_are_explained():
    for model in MODELS:
        assert not names_for(model, PARAMETERS) & set(inspect.signature(model).parameters)
        assert not [name for name in names_for(model, ATTRIBUTES) if name in dir(model)]
        assert hint_about("vectors", model, ATTRIBUTES) == ""


def test_models_are_copied_and_pickled():
    model = LDA(3)
    assert copy.deepcopy(model).get_params() == pickle.loads(pickle.dumps(model)).get_params() == model.get_params()
