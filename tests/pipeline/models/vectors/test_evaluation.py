"""Word pairs and analogies: the same figures as gensim's on the same vectors."""

import numpy as np
import pytest
from corpusmill.io.errors import DataError
from corpusmill.pipeline.models.vectors.vectors import WordVectors

# gensim calls its own function of an old name.
pytestmark = pytest.mark.filterwarnings("ignore:Call to deprecated `init_sims`")

PAIRS = "# a comment\nw1\tw2\t9.5\nW3\tw4\t2\nw5\tmissing\t1\nnot a pair\nw6\tw7\tlots\nw8\tw9\t4.25\nW10\tW11\t7\n"


def make_vectors(n=60, dimension=8, seed=0, cased=False):
    """Vectors near a grid, such that many analogies hold: word i has row i // 10 and column i % 10."""
    rng = np.random.default_rng(seed)
    rows, columns = rng.normal(size=(n // 10, dimension)), rng.normal(size=(10, dimension))
    vectors = np.array([rows[i // 10] + columns[i % 10] for i in range(n)]) + rng.normal(0, 0.2, (n, dimension))
    words = [f"w{i}" for i in range(n)]
    if cased:
        words[-6:] = [f"W{i}" for i in range(6)]
    return WordVectors(words, vectors)


def grid_questions(seed=1):
    rng = np.random.default_rng(seed)
    lines = [": one"]
    for i in range(120):
        r, s = rng.choice(7, 2, replace=False)
        c, d = rng.choice(10, 2, replace=False)
        lines.append(f"w{10 * r + c} W{10 * r + d} w{10 * s + c} w{10 * s + d}")
        lines += [": two of it"] if i == 60 else []
    return "\n".join([*lines, "a line of five words", ": nothing"]) + "\n"


@pytest.fixture
def pairs(tmp_path):
    (tmp_path / "pairs.tsv").write_text(PAIRS)
    return str(tmp_path / "pairs.tsv")


@pytest.fixture
def analogies(tmp_path):
    (tmp_path / "analogies.txt").write_text(grid_questions())
    return str(tmp_path / "analogies.txt")


@pytest.mark.parametrize("dummy", [False, True])
@pytest.mark.parametrize("restrict", [12, None])
def test_word_pairs_are_evaluated_with_gensims_results(pairs, restrict, dummy):
    wv = make_vectors(cased=True)
    options = {"restrict_vocab": restrict, "dummy4unknown": dummy}
    pearson, spearman, ratio = wv.evaluate_word_pairs(pairs, **options)
    expected = wv.to_gensim().evaluate_word_pairs(pairs, **options)
    np.testing.assert_allclose(pearson, tuple(expected[0]), rtol=1e-4)
    np.testing.assert_allclose(spearman, tuple(expected[1]), rtol=1e-4)
    assert ratio == pytest.approx(expected[2])


def test_word_pairs_may_be_separated_by_commas(pairs, tmp_path):
    wv = make_vectors()
    (tmp_path / "pairs.csv").write_text(PAIRS.replace("\t", ","), encoding="utf-16")
    found = wv.evaluate_word_pairs(str(tmp_path / "pairs.csv"), delimiter=",", encoding="utf-16")
    assert found == wv.evaluate_word_pairs(pairs)


@pytest.mark.parametrize("dummy", [False, True])
@pytest.mark.parametrize("insensitive", [False, True])
@pytest.mark.parametrize("restrict", [33, None])
def test_word_analogies_are_evaluated_with_gensims_results(analogies, restrict, insensitive, dummy):
    wv = make_vectors(cased=True)
    options = {"restrict_vocab": restrict, "case_insensitive": insensitive, "dummy4unknown": dummy}
    score, sections = wv.evaluate_word_analogies(analogies, **options)
    assert (score, sections) == wv.to_gensim().evaluate_word_analogies(analogies, **options)
    assert [section["section"] for section in sections] == ["one", "two of it", "nothing", "Total accuracy"]


def test_products_of_cosines_answer_as_in_gensim(analogies):
    wv = make_vectors()
    peer, right = wv.to_gensim(), 0
    # gensim's evaluation always uses 3CosAdd, so its 3CosMul is called here for each question.
    for line in grid_questions().lower().splitlines():
        words = line.split()
        if len(words) == 4 and all(word in wv for word in words):
            right += peer.most_similar_cosmul(words[1:3], words[:1], topn=1)[0][0] == words[3]
    by_sums, _ = wv.evaluate_word_analogies(analogies)
    score, sections = wv.evaluate_word_analogies(analogies, similarity_function="most_similar_cosmul")
    total = sections[-1]
    assert len(total["correct"]) == right
    assert score == right / (len(total["correct"]) + len(total["incorrect"])) != by_sums
    with pytest.raises(ValueError, match="choose 'most_similar' or"):
        wv.evaluate_word_analogies(analogies, similarity_function="cosine")


def test_real_files_score_as_in_gensim(real_data):
    words, rng = set(), np.random.default_rng(0)
    for name in ("eval/wordsim353.tsv", "eval/simlex999.txt"):
        for line in real_data(name).read_text().splitlines():
            if not line.startswith("#"):
                words.update(word.lower() for word in line.split("\t")[:2])
    known = sorted(words)[:1000]
    wv = WordVectors(known, rng.normal(size=(len(known), 10)))
    for name in ("eval/wordsim353.tsv", "eval/simlex999.txt"):
        _, spearman, ratio = wv.evaluate_word_pairs(str(real_data(name)))
        _, expected, expected_ratio = wv.to_gensim().evaluate_word_pairs(str(real_data(name)))
        assert spearman.statistic == pytest.approx(expected[0], abs=1e-6)
        assert ratio == pytest.approx(expected_ratio)


def test_missing_and_unusable_files_are_refused(tmp_path):
    wv = make_vectors()
    with pytest.raises(DataError, match="cannot be read"):
        wv.evaluate_word_pairs(str(tmp_path / "none"))
    (tmp_path / "bad").write_text("x\ty\t1\n")
    with pytest.raises(DataError, match="0 pairs of known words and 1 with an unknown word"):
        wv.evaluate_word_pairs(str(tmp_path / "bad"))
    with pytest.raises(DataError, match="no analogies"):
        wv.evaluate_word_analogies(str(tmp_path / "bad"))
    (tmp_path / "bad").write_text("a b c d\n")
    with pytest.raises(DataError, match="before the first section"):
        wv.evaluate_word_analogies(str(tmp_path / "bad"))
