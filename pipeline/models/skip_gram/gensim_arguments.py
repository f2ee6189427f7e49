"""Error messages for gensim's ways of calling Word2Vec that corpusmill does not have."""

import functools
from collections.abc import Callable, Iterable

_FIT = "pass the sentences to fit, as in Word2Vec(vector_size=100).fit(sentences)"
_CBOW = "leave it out: training is always skip-gram (gensim's sg=1), and CBOW is not supported"

#: Parameters of gensim's Word2Vec that corpusmill does not have, and what to write instead.
PARAMETERS = {
    "sentences": _FIT,
    "corpus_file": "ingest the file first, then pass the corpus to fit",
    "max_vocab_size": "leave it out: ingestion counts words within the memory of its workers",
    "max_final_vocab": "limit the vocabulary with max_features of ingest",
    "trim_rule": "choose the vocabulary with min_df, max_df and stop_words of ingest",
    "workers": "use threads for the threads of a task, and pass a Dask client to fit for several processes",
    "sg": _CBOW,
    "cbow_mean": _CBOW,
    "hs": "leave it out: hierarchical softmax is not supported; negative is the number of negative samples",
    "shrink_windows": "choose a method instead: the window of 'full' is fixed, those of the others shrink at random",
    "compute_loss": "leave it out: history_ has the loss of every epoch",
    "callbacks": "pass callbacks to fit",
    "hashfxn": "leave it out: the first vectors depend on seed only",
    "null_word": "leave it out",
    "sorted_vocab": "leave it out: words are always sorted by falling frequency",
    "batch_words": "leave it out: the option chunk_tokens of ingest sets the size of chunks",
    "comment": "leave it out",
    "size": "its name is vector_size, as in gensim 4",
    "iter": "its name is epochs, as in gensim 4",
}


def explain_gensim_arguments(init: Callable[..., None]) -> Callable[..., None]:
    """Decorate a constructor so that arguments that only gensim has raise a TypeError that names the alternative.

    The signature of the constructor stays as it is.
    """

    @functools.wraps(init)
    def checked(self: object, *arguments: object, **parameters: object) -> None:
        name = type(self).__name__
        # gensim's first parameter is the text. Ours is always a number.
        if arguments and isinstance(arguments[0], Iterable):
            raise TypeError(f"{name} takes no data: {_FIT.replace('Word2Vec', name)}")
        for parameter in parameters:
            if parameter in PARAMETERS:
                raise TypeError(f"{name} has no parameter {parameter!r}: {PARAMETERS[parameter]}")
        init(self, *arguments, **parameters)

    return checked
