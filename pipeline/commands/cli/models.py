"""Commands that use a trained model: topics, similar, evaluate, transform, export."""

from typing import TYPE_CHECKING

import click

from . import show
from .options import config_option, json_option, number_option, part_option, set_option
from .session import load_config, open_session

if TYPE_CHECKING:
    from ..actions import Facts


@click.command()
@click.argument("model")
@number_option("--words", "Number of words per topic.")
@json_option
def topics(model: str, words: int, as_json: bool) -> None:
    """Print the topics of a model, largest first.

    MODEL is the folder or URL of an LDA or NMF model, of a run that is finished, or of the versions of a model (see
    `corpusmill retrain`).

    \b
    Examples:
      corpusmill topics demo/model
      corpusmill topics demo/model --words 20 --json | jq '.topics[0]'
    """
    from ..actions.models import load_topic_model, topics_by_size

    estimator = load_topic_model(model)
    topics = topics_by_size(estimator, words)
    found = {"model": model, "epochs": estimator.n_iter_, "topics": topics}
    show.result(found, as_json, lambda: show.topics_of_model(topics, model, estimator.n_iter_))


@click.command()
@click.argument("model")
@click.argument("words", nargs=-1, required=True)
@click.option("--without", multiple=True, metavar="WORD", help="Subtract the vector of this word. May be repeated.")
@click.option("--documents", metavar="CORPUS", help="Search the documents of this corpus instead of words.")
@part_option("train")
@number_option("--number", "Number of results.")
@json_option
def similar(
    model: str,
    words: tuple[str, ...],
    without: tuple[str, ...],
    documents: str | None,
    part: str,
    number: int,
    as_json: bool,
) -> None:
    """Print the words or documents most similar to some words.

    MODEL is the folder or URL of a model or of a finished run. Similar words need a model with word vectors: word2vec,
    node2vec, fastrp or random-indexing. With --documents, any model that was trained on text will do. Each line shows
    the cosine similarity.

    \b
    Examples:
      corpusmill similar runs/vectors/model sea
      corpusmill similar runs/vectors/model king woman --without man
      corpusmill similar demo/model sea ships --documents demo/corpus
    """
    # Imported here, because `corpusmill --help` must not load NumPy. All commands do this.
    from ....io.stores.corpus import Corpus
    from ..actions.models import similar as similar_to

    found = similar_to(model, words, without, number, Corpus(documents, part) if documents else None)
    show.result({"model": model, "similar": found}, as_json, lambda: show.similar(found))


@click.command()
@click.argument("model")
@click.argument("corpus")
@part_option("held_out")
@click.option(
    "--method",
    type=click.Choice(("completion", "left-to-right")),
    help="How an LDA model scores a document: document completion, or Wallach's left-to-right estimate, which is slow. "
    " [default: completion]",
)
@click.option(
    "--coherence",
    "measures",
    multiple=True,
    type=click.Choice(("u_mass", "npmi", "c_v")),
    help="Also measure how often the words of a topic occur together in the documents of --part, for each topic and "
    "on average. Published figures are usually of the documents that the model was trained on: --part train. May be "
    "repeated.",
)
@config_option("Configuration of the cluster, such as clusters/local")
@set_option
@json_option
def evaluate(
    model: str,
    corpus: str,
    part: str,
    method: str | None,
    measures: tuple[str, ...],
    configs: tuple[str, ...],
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Score a model on the documents of a corpus.

    MODEL is the folder or URL of a model or of a finished run, and CORPUS that of a corpus. Prints the log-likelihood
    per token and the perplexity. By default, half of each document is used to estimate its topics, and the other half
    is scored. Which half depends on the document's words alone. A run draws other halves, so its held-out score differs
    by chance.

    \b
    Examples:
      corpusmill evaluate demo/model demo/corpus
      corpusmill evaluate demo/model demo/corpus --part train --coherence c_v
      corpusmill evaluate demo/model demo/corpus --method left-to-right
    """
    config = load_config(configs, settings)
    from ..actions.models import check_stored
    from ..actions.models import evaluate as evaluate_model

    model_bytes = check_stored(model, corpus, part)
    with open_session(config, as_json, model_bytes=model_bytes) as session:
        facts = evaluate_model(model, corpus, part, session.client, method, measures)
    show.result(facts, as_json, lambda: show.evaluation(facts))


@click.command(short_help="Write the topics or the vector of each document.")
@click.argument("model")
@click.argument("corpus")
@click.argument("out", required=False)
@part_option("train")
@click.option("--top", type=click.IntRange(1), metavar="N", help="Write the N largest weights of each document only.")
@click.option("--into", metavar="FILE", help="Store the weights in this AnnData file (.h5ad or .zarr) instead of OUT.")
@click.option(
    "--layer", help="Matrix of an AnnData file to transform: X, raw/X, or such as layers/counts.  [default: X]"
)
@click.option("--key", metavar="NAME", help="Name of the results in the file.  [default: topics for lda, nmf for nmf]")
@click.option("--replace", is_flag=True, help="Replace earlier results in OUT, or of the same name in the file.")
@config_option("Configuration of the cluster, such as clusters/local")
@set_option
@json_option
def transform(
    model: str,
    corpus: str,
    out: str | None,
    part: str,
    top: int | None,
    into: str | None,
    layer: str | None,
    key: str | None,
    replace: bool,
    configs: tuple[str, ...],
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write the topic weights of each document as Parquet files, or into an AnnData file.

    MODEL, CORPUS and OUT are folders or URLs, and MODEL may be a finished run. OUT receives one file per chunk of the
    corpus, with the columns document (its key) and weights. With --top, a further column has the topics of the weights,
    so that the files of a thousand topics stay small. For models of word vectors, the weights are the vector of the
    document. The same command may be repeated; an OUT with other files, or with results of another model or corpus,
    needs --replace.

    With --into, CORPUS may also be an AnnData file with the same cells. The file receives the weights of cells in obsm,
    the weights of genes in varm, and the parameters and the history of the model in uns. If the command is killed, the
    file is either unchanged or complete.

    \b
    Examples:
      corpusmill transform demo/model demo/corpus demo/weights
      python -c "import pandas; print(pandas.read_parquet('demo/weights'))"
      corpusmill transform runs/cells/model cells.h5ad --into cells.h5ad
    """
    if (out is None) == (into is None):
        raise click.UsageError("give either OUT or --into FILE")
    if top is not None and into is not None:
        raise click.UsageError("--top is for OUT: an AnnData file has all weights")
    config = load_config(configs, settings)
    from ....io.stores.corpus import Corpus
    from ...models.base.topics import TopicModel
    from ...models.registry import load_model
    from ..actions.models import check_stored

    facts: Facts
    # With --into, CORPUS may be a file.
    model_bytes = check_stored(model, corpus if into is None else "", part)
    with open_session(config, as_json, model_bytes=model_bytes) as session:
        estimator = load_model(model)
        if into is not None:
            from ...cells.anndata import annotate_file

            keys = annotate_file(into, estimator, corpus, layer, key, client=session.client, replace=replace)
            facts = {"into": into, "obsm": keys.obsm, "varm": keys.varm, "uns": f"corpusmill/{keys.uns}"}
        else:
            documents = Corpus(corpus, part)
            counts = estimator.transform_to(documents, str(out), top=top, client=session.client, replace=replace)
            columns = ["document", *(["topics"] if top else []), "weights", *documents.kept_columns]
            facts = {"out": out, "files": len(documents.chunks), "columns": columns, **counts}
            if isinstance(estimator, TopicModel) and estimator.topic_names_:
                facts["topic_names"] = dict(estimator.topic_names_)
    show.result(facts, as_json)


@click.command(short_help="Write a model as files for other tools.")
@click.argument("model")
@click.argument("out")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(("tsv", "mallet", "card", "vectors")),
    default="tsv",
    show_default=True,
    help="tsv: the heaviest words of each topic. mallet: MALLET's topic-keys.txt and, with --corpus, doc-topics.txt. "
    "card: a model card, README.md, with data, results, parameters and topics. vectors: the word vectors, in the "
    "format given by the ending of OUT: .txt and .bin (word2vec's), .safetensors, .parquet or .zarr.",
)
@click.option(
    "--corpus",
    metavar="CORPUS",
    help="mallet: also write the topics of this corpus's documents. card: the corpus of the training, if it was moved.",
)
@part_option("train")
@json_option
def export(model: str, out: str, file_format: str, corpus: str | None, part: str, as_json: bool) -> None:
    """Write the topics or the word vectors of a model as files for other tools, or a model card.

    MODEL is the folder or URL of a model, or of a finished run. OUT is the folder or URL to write to, or the file of
    word vectors.

    \b
    Examples:
      corpusmill export demo/model topics/
      corpusmill export demo/model topics/ --format mallet --corpus demo/corpus
      corpusmill export demo/model demo/model --format card
      corpusmill export runs/vectors vectors.txt --format vectors
    """
    from ..actions.export import export as export_topics

    facts = export_topics(model, out, file_format, corpus, part)
    show.result(facts, as_json)
