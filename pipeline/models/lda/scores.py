"""How LDA is scored and shown: likelihoods per token, and the words of the largest topics.

The likelihood of a training token takes longer than drawing its topic. So training is scored on a sample of tokens,
which depends on the corpus only and, with the sampler gibbs, on its blocks: it is the same in all evaluations. Tokens
are a better sample than documents, of which a few long ones may have most of the tokens and likelihoods that are far
from those of others.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ....io.stores.chunk import Chunk
from ....io.stores.corpus import Corpus
from ....io.stores.store import Arrays
from ....kernels import random
from ....kernels.lda.counts import count_documents, topic_totals
from ....kernels.lda.esca import log_likelihood
from ...engine.algorithm import Address, Metrics, ModelView, Scores
from ...topics import WordList
from .inference import TrainedTopics, score_by_completion
from .word_topics import gather_rows, heaviest_entries, kernel_blocks, stored_blocks

#: Takes the place of the step in the address of the draws that split held-out documents. No step has this number.
_HELD_OUT = -2
#: About how many tokens of the corpus are scored, at most twice as many, by taking every n-th of each chunk. Their mean
#: has a standard error of 0.003 to 0.005, because in word order neighbours are alike, and chunks have equal shares.
#: Scoring a token takes up to twenty times as long as drawing its topic with WarpLDA. With more, scores would take more
#: than 3% of a training.
SCORED_TOKENS = 1 << 14
#: How many topics, and words of each, `TopicScores.describe` shows.
_SHOWN_TOPICS = 24
_SHOWN_WORDS = 8


@dataclass(frozen=True)
class TopicScores(Scores):
    """Scores of all samplers."""

    most_chunks: ClassVar[int] = 16

    bounds: tuple[int, ...]  # of the blocks
    n_words: int  # V, including words that only the previous model has
    n_topics: int

    def score(self, model: ModelView, chunk: Chunk, state: Arrays | None, address: Address, data: Corpus) -> Arrays:
        """Return the log-likelihood of a chunk and its number of tokens.

        Training documents are scored given the topics of their tokens, held-out documents by document completion. Of
        a large corpus, a sample of the tokens is scored, given the topics of all tokens of their documents.
        """
        if state is None:
            chunk = chunk.completed()
            keys = random.stream(random.key(address.seed, _HELD_OUT, address.chunk), chunk.n_documents)
            return score_by_completion(chunk.doc_ptr, chunk.words, self._topics_of_words(model, data.n_words), keys)
        rows = count_documents(chunk.doc_ptr, chunk.word_to_doc_order, state["z"])
        share = min(1.0, self.most_chunks / len(data.chunks))
        chunk = sampled(chunk, int(share * data.n_tokens) // SCORED_TOKENS)
        total = sum(
            log_likelihood(chunk, rows, block) for block in kernel_blocks(model, self.bounds, self.n_words, chunk)
        )
        return {"log_likelihood": np.float64(total), "tokens": np.int64(chunk.word_ptr[-1])}

    def _topics_of_words(self, model: ModelView, n_words: int) -> TrainedTopics:
        """Return the topics as distributions over the corpus's first ``n_words`` words, as if it had no others."""
        shared = model.shared
        n_later = max(0, self.bounds[-1] - n_words)
        if n_later:
            rows = np.flatnonzero(self._word_order(model) >= n_words)
            later = gather_rows(rows, stored_blocks(model, self.bounds))
            totals = topic_totals(later["topics"], later["counts"], self.n_topics)
            shared = {**shared, "totals": shared["totals"] - totals}
        return TrainedTopics(stored_blocks(model, self.bounds), shared, self.n_words - n_later)

    def _word_order(self, model: ModelView) -> np.ndarray:
        """Return the word of each row of the blocks: (V,)."""
        return model.shared.get("words", np.arange(self.bounds[-1]))

    def metrics(self, sums: Arrays, held_out: bool) -> Metrics:
        """Return the log-likelihood per token (Moon 2019, equation 2.4, there of test documents)."""
        mean = float(sums["log_likelihood"] / max(1, sums["tokens"]))
        if held_out:
            return {"held_out_log_likelihood": mean}
        return {"log_likelihood": mean, "evaluated_tokens": float(sums["tokens"])}

    def describe(self, model: ModelView, data: Corpus) -> list[WordList]:
        """Return size and top words of the largest topics."""
        totals = model.shared["totals"] - model.shared["seeded"]
        shares = totals / max(1, totals.sum())
        blocks = stored_blocks(model, self.bounds)
        best = list(heaviest_entries(blocks, self.n_topics, _SHOWN_WORDS, self._word_order(model)))
        names = data.vocabulary["word"]
        lists = []
        for k in np.argsort(-totals, kind="stable")[:_SHOWN_TOPICS]:
            words = [names[word].as_py() for word in best[k][0].tolist()]
            lists.append(WordList(f"{shares[k]:.1%}", words))
        return lists


def sampled(chunk: Chunk, n: int) -> Chunk:
    """Return the chunk with every ``n``-th token of word order only, but with whole documents in ``doc_ptr``."""
    if n <= 1:
        return chunk.completed()
    kept = np.arange(n // 2, chunk.n_tokens, n)
    segments, first_tokens = np.unique(np.searchsorted(chunk.word_ptr, kept, side="right") - 1, return_index=True)
    if len(chunk.docs):
        documents = chunk.docs[kept]
    else:
        documents = np.searchsorted(chunk.doc_ptr, chunk.word_to_doc_order[kept], side="right") - 1
    return chunk._replace(
        group_ptr=np.searchsorted(segments, chunk.group_ptr),
        word_ids=chunk.word_ids[segments],
        word_ptr=np.append(first_tokens, len(kept)),
        docs=documents.astype(np.uint32),
    )
