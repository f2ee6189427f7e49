"""Names of gensim, scikit-learn and tomotopy, and what to write here instead. Only error messages have them."""

import functools
from collections.abc import Callable, Iterable
from typing import Any

_FIT = "pass the data to fit"
_CLIENT = "pass a Dask client to fit"
_COMPONENTS = "its name is n_components"
_EPOCHS = "its name is max_iter, the number of epochs"
_EVALUATE = "pass evaluate_every to fit"
_ONLINE = "leave it out: every epoch visits all documents, chunk by chunk"
_CHUNKS = "leave it out: the option chunk_tokens of ingest sets the size of chunks"
_VOCABULARY = "choose the vocabulary with min_df, max_df and stop_words of ingest"
_CBOW = "leave it out: training is always skip-gram (gensim's sg=1), and CBOW is not supported"
_TOPICS = "topics(n) has the n heaviest words of each topic"
_TRANSFORM = "transform returns the weights of documents"
_DOCUMENTS = "pass all documents to fit, and new ones to transform or partial_fit"
_SCORE = "score returns the log-likelihood per token of held-out documents"
_SCORE_OF_NMF = "score returns the log-likelihood per token of documents, and minus the error of a matrix"
_INFERENCE = "leave it out: it limits the inference of one document; the number of epochs is max_iter"
_VECTOR_SIZE = "its name is vector_size, as in Word2Vec"
_NUM_WALKS = "its name is num_walks"
_INDEX_TO_KEY = "its name is index_to_key, as in gensim 4"
_MOST_SIMILAR = "most_similar takes words and vectors"
_TO_GENSIM = "to_gensim returns a copy as gensim's KeyedVectors, which has it"
_RETRAIN = "leave it out: one epoch is exact, and retrain is the number of further ones"

#: Methods of gensim's KeyedVectors that `WordVectors` does not have.
_ONLY_IN_GENSIM = (
    "add_vector",
    "add_vectors",
    "closer_than",
    "distances",
    "doesnt_match",
    "get_mean_vector",
    "most_similar_cosmul",
    "most_similar_to_given",
    "n_similarity",
    "rank",
    "rank_by_centrality",
    "relative_cosine_similarity",
    "vectors_for_all",
    "wmdistance",
    "words_closer_than",
)

#: Parameters, by the class whose models do not have them.
PARAMETERS = {
    "Estimator": {
        "callbacks": "pass callbacks to fit",
        "verbose": "pass callbacks=[ProgressLines()] to fit",
        "n_jobs": _CLIENT,
        "workers": _CLIENT,
        "distributed": _CLIENT,
        "corpus": _FIT,
        "documents": _FIT,
        "id2word": "pass lists of words to fit, or a matrix and the words of its columns as vocabulary",
        "evaluate_every": _EVALUATE,
        "eval_every": _EVALUATE,
        "chunksize": _CHUNKS,
        "batch_size": _CHUNKS,
        "min_df": _VOCABULARY,
        "max_df": _VOCABULARY,
        "vocabulary": "pass vocabulary to ingest, or to fit with a matrix",
        "warm_start": "pass the same run and a higher number of epochs to fit, or new documents to partial_fit",
    },
    "TopicModel": {
        "num_topics": _COMPONENTS,
        "n_topics": _COMPONENTS,
        "k": _COMPONENTS,
        "seed": "its name is random_state",
        "passes": _EPOCHS,
        "epochs": _EPOCHS,
        "n_iter": _EPOCHS,
        "stop_words": _VOCABULARY,
        "iterations": _INFERENCE,
        "minimum_probability": "leave it out: transform returns all weights",
    },
    "LDA": {
        "alpha": "its name is doc_topic_prior",
        "eta": "its name is topic_word_prior",
        "beta": "its name is topic_word_prior",
        "learning_method": _ONLINE,
        "learning_decay": _ONLINE,
        "learning_offset": _ONLINE,
        "decay": _ONLINE,
        "offset": _ONLINE,
        "update_every": _ONLINE,
        "total_samples": _ONLINE,
        "dtype": "leave it out: weights are 32-bit numbers",
        "gamma_threshold": _INFERENCE,
        "mean_change_tol": _INFERENCE,
        "max_doc_update_iter": _INFERENCE,
        "perp_tol": "pass callbacks=[EarlyStopping()] to fit",
        "ns_conf": _CLIENT,
        "per_word_topics": "leave it out: transform returns the weights of documents only",
        "minimum_phi_value": "leave it out: transform returns the weights of documents only",
        "batch": _ONLINE,
        "min_cf": _VOCABULARY,
        "rm_top": _VOCABULARY,
        "tw": "leave it out: tokens of LDA cannot have weights; NMF has weighting='tfidf'",
    },
    "NMF": {
        "shuffle": "leave it out: it is for scikit-learn's solver 'cd'; 'hals' gives the same errors",
        "alpha": "its names are alpha_W and alpha_H, as in scikit-learn 1.2",
    },
    "SkipGramEstimator": {
        "n_components": "its name is vector_size, as in gensim",
        "random_state": "its name is seed, as in gensim",
        "max_iter": "its name is epochs, as in gensim",
        "size": "its name is vector_size, as in gensim 4",
        "iter": "its name is epochs, as in gensim 4",
        "sentences": _FIT,
        "corpus_file": "ingest the file first, then pass the corpus to fit",
        "max_vocab_size": "leave it out: ingestion counts words within the memory of its workers",
        "max_final_vocab": "limit the vocabulary with max_features of ingest",
        "trim_rule": _VOCABULARY,
        "stop_words": _VOCABULARY,
        "workers": "use threads for the threads of a task, and pass a Dask client to fit for several processes",
        "sg": _CBOW,
        "cbow_mean": _CBOW,
        "hs": "leave it out: hierarchical softmax is not supported; negative is the number of negative samples",
        "shrink_windows": "choose a method: the window of 'full' is fixed, those of the others shrink at random",
        "compute_loss": "leave it out: history_ has the loss of every epoch",
        "hashfxn": "leave it out: the first vectors depend on seed only",
        "null_word": "leave it out",
        "sorted_vocab": "leave it out: words are always sorted by falling frequency",
        "batch_words": _CHUNKS,
        "comment": "leave it out",
    },
    "Node2Vec": {
        "graph": "pass the graph to fit",
        "dimensions": _VECTOR_SIZE,
        "dim": _VECTOR_SIZE,
        "n_walks": _NUM_WALKS,
        "walk_number": _NUM_WALKS,
        "walks_per_node": _NUM_WALKS,
        "window_size": "its name is window, as in Word2Vec",
        "weight_key": "leave it out: the attribute weight of an edge is its weight",
        "directed": "pass a networkx.DiGraph to fit, or a graph that `corpusmill graph --directed` made",
        "weighted": "leave it out: weights count if the graph has some; `corpusmill graph --unweighted` ignores them",
        "extend": "leave it out: node2vec+ is not supported",
    },
    "RandomIndexing": {
        "seed": "its name is random_state; seed_length is the length of a word's seed",
        "dimension": _VECTOR_SIZE,
        "n_components": _VECTOR_SIZE,
        "epochs": _RETRAIN,
        "max_iter": _RETRAIN,
    },
}

#: Methods and attributes, by the class whose models do not have them.
ATTRIBUTES = {
    "TopicModel": {
        "print_topics": _TOPICS,
        "show_topics": _TOPICS,
        "print_topic": _TOPICS,
        "show_topic": _TOPICS,
        "get_topic_words": _TOPICS,
        "summary": _TOPICS,
        "get_topics": "components_ has the weight of each word in each topic",
        "get_topic_word_dist": "components_ has the weight of each word in each topic",
        "get_document_topics": _TRANSFORM,
        "inference": _TRANSFORM,
        "infer": _TRANSFORM,
        "add_doc": _DOCUMENTS,
        "make_doc": _DOCUMENTS,
        "log_perplexity": _SCORE,
        "ll_per_word": _SCORE,
        "top_topics": "coherence measures each topic",
        "get_topic_terms": _TOPICS,
        "get_term_topics": "components_ has the weight of each word in each topic",
        "id2word": "words_ has the words in the order of their ids",
        "num_terms": "its name is n_features_in_",
    },
    "LDA": {
        "alpha": "doc_topic_prior_ has the prior of each topic",
        "eta": "topic_word_prior_ is the prior of the words",
        "beta": "topic_word_prior_ is the prior of the words",
    },
    "NMF": {"log_perplexity": _SCORE_OF_NMF, "ll_per_word": _SCORE_OF_NMF},
    "Estimator": {
        "train": "fit trains a new model, and partial_fit continues a trained one",
        "update": "partial_fit continues a trained model",
    },
    "SkipGramEstimator": {
        "build_vocab": "fit counts the words, then trains",
        "most_similar": "wv.most_similar has gensim's arguments",
        "predict_output_word": "wv.most_similar returns words that are used in the same places as a word",
        "get_latest_training_loss": "history_ has the loss of every epoch",
        "score": "word vectors give documents no likelihood; see held_out_loss in history_",
    },
    "Node2Vec": {"evaluate": "pass the rows of transform to scikit-learn, which has classifiers and cross-validation"},
    "Word2Vec": {"evaluate": "wv.evaluate_word_pairs and wv.evaluate_word_analogies compare with human judgments"},
    "RandomIndexing": {"score": "random indexing gives documents no likelihood; see match_halves"},
    "WordVectors": {
        "vocab": "key_to_index has the row of each word, as in gensim 4",
        "index2word": _INDEX_TO_KEY,
        "index2entity": _INDEX_TO_KEY,
        "word_vec": "get_vector returns the vector of a word, as in gensim 4",
        "init_sims": "get_normed_vectors returns the vectors with length 1",
        "get_vecattr": "counts has how often each word occurs, in the order of index_to_key",
        "has_index_for": "'word in vectors' says whether there is a vector",
        "similar_by_word": _MOST_SIMILAR,
        "similar_by_key": _MOST_SIMILAR,
        "similar_by_vector": _MOST_SIMILAR,
        "distance": "similarity returns 1 minus the distance",
        "save_word2vec_format": "save writes this format for names that end in .txt, .vec or .bin",
    }
    | dict.fromkeys(_ONLY_IN_GENSIM, _TO_GENSIM),
}


def explain_attribute(model: object, name: str) -> Any:
    """Raise the AttributeError of a missing name, with what to use instead of a name of another library.

    Classes use it as ``__getattr__``, but not for type checkers, which would take every name for an attribute.
    """
    # gensim's models have their parameters as attributes, such as num_topics.
    hint = hint_about(name, type(model), ATTRIBUTES) or hint_about(name, type(model), PARAMETERS)
    if hint:
        raise AttributeError(f"{type(model).__name__} has no {name}: {hint}")
    # This raises the error again that led here: that of a missing name, or of a property.
    return object.__getattribute__(model, name)


def explain_parameters(init: Callable[..., None]) -> Callable[..., None]:
    """Decorate a constructor so that parameters of other libraries raise a TypeError that says what to write instead.

    The signature of the constructor stays as it is.
    """

    @functools.wraps(init)
    def checked(self: object, *arguments: object, **parameters: object) -> None:
        model = type(self).__name__
        # The first parameter of gensim's models is the data. Ours is never a sequence.
        if arguments and isinstance(arguments[0], Iterable) and not isinstance(arguments[0], str):
            raise TypeError(f"{model} takes no data: {_FIT}, as in {model}().fit(data)")
        for parameter in parameters:
            hint = hint_about(parameter, type(self), PARAMETERS)
            if hint:
                raise TypeError(f"{model} has no parameter {parameter!r}: {hint}")
        init(self, *arguments, **parameters)

    return checked


def hint_about(name: str, model: type, table: dict[str, dict[str, str]]) -> str:
    """Return what one of the tables says about a name, for a class of models; an empty string if nothing."""
    for base in model.__mro__:
        if name in table.get(base.__name__, {}):
            return table[base.__name__][name]
    return ""
