"""Skip-gram one pair at a time, in the order of word2vec and gensim, for comparison."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from corpusmill import Node2Vec, Word2Vec
from corpusmill.kernels.word2vec.text import Text, TrainingOptions
from corpusmill.pipeline.models.skip_gram import sequential
from corpusmill.pipeline.models.skip_gram.strata import StrataSkipGram

from ..kernels.sgns import train_sgns


@dataclass(frozen=True, kw_only=True)
class SequentialSkipGram(sequential.SequentialSkipGram):
    """Trains one pair at a time. It has the name of its base class, because runs of earlier versions store that."""

    has_cuda_kernels: ClassVar[bool] = False

    def train(self, text: Text, options: TrainingOptions, W_in: np.ndarray, W_out: np.ndarray) -> None:
        """Train W_in and W_out (rows, padded D) in place on a text."""
        train_sgns(0, len(text.ptr) - 1, text, options, W_in, W_out)


_METHODS: Mapping[str, type[StrataSkipGram | sequential.SequentialSkipGram]]
_METHODS = {**Word2Vec._methods, "sgns": SequentialSkipGram}


class PaperWord2Vec(Word2Vec):
    """Word2Vec with the method of this module in addition: ``method="sgns"``."""

    _kind = f"{__name__}:PaperWord2Vec"
    _methods = _METHODS


class PaperNode2Vec(Node2Vec):
    """Node2Vec with the method of this module in addition: ``method="sgns"``."""

    _kind = f"{__name__}:PaperNode2Vec"
    _methods = _METHODS
