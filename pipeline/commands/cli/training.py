"""Commands that make corpora, graphs and models: run, ingest, graph, train, resume."""

from typing import TYPE_CHECKING

import click

from . import show
from .options import config_option, configs_argument, json_option, overwrite_option, set_option
from .session import Session, job_metrics, library_warnings, load_config, mlflow_of, open_session

if TYPE_CHECKING:
    from ....configs.schema import Config
    from ...engine.events import Callback
    from ...views.prometheus import BatchJob
    from ..actions.train import TrainingResult


@click.command()
@configs_argument
@set_option
@overwrite_option
@json_option
def run(configs: tuple[str, ...], settings: tuple[str, ...], overwrite: bool, as_json: bool) -> None:
    """Ingest documents, train a model and write a report.

    CONFIG is a YAML file, or the name of a configuration that ships with corpusmill (see `corpusmill config list`). You
    can give several; later ones override earlier ones. `run` does what `ingest` and `train` do one after the other.
    Steps that are already done are skipped, so the same command also continues an interrupted run.

    \b
    Examples:
      corpusmill run quickstart
      corpusmill run my.yaml --set source.path='s3://news/*.parquet'
      corpusmill run my.yaml clusters/jobqueue
      CORPUSMILL_MODEL__N_COMPONENTS=200 corpusmill run my.yaml
    """
    config = load_config(configs, settings)
    from ..actions.ingest import ingest as ingest_documents
    from ..actions.ingest import open_documents
    from ..actions.train import check_training

    documents = None
    corpus = None
    with job_metrics(config, config.run.url) as job:
        with library_warnings():
            check_training(config, makes_corpus=config.source is not None)
        if config.source is not None:
            with library_warnings():
                documents = open_documents(config, overwrite)
        with open_session(config, as_json) as session:
            if documents is not None:
                corpus = ingest_documents(config, documents, session.client, session.display, overwrite)
            trained = _train(config, session, job, overwrite)
    show.result({"corpus": corpus, **trained}, as_json, lambda: show.run(corpus, trained))


@click.command()
@click.argument("source")
@click.argument("corpus")
@config_option("Configuration of the cluster and of how text is read")
@set_option
@overwrite_option
@json_option
def ingest(
    source: str, corpus: str, configs: tuple[str, ...], settings: tuple[str, ...], overwrite: bool, as_json: bool
) -> None:
    """Turn documents into a corpus on disk.

    SOURCE is a file, a folder, a glob pattern or a URL. Formats: Parquet, JSONL, CSV, text (a file or a line per
    document), UCI docword, svmlight, LDA-C, MatrixMarket, SciPy's .npz, AnnData (.h5ad or Zarr), and 10x Genomics'
    files (HDF5 or a folder). CORPUS is the folder or URL to write to.

    An interrupted ingest continues where it stopped. If the corpus is already complete, nothing is done.

    \b
    Examples:
      corpusmill ingest articles.jsonl.gz corpus --set source.text=body
      corpusmill ingest 's3://news/*.parquet' s3://work/corpus --set source.stop_words=english
      corpusmill ingest docword.nips.txt.gz corpus --set source.vocabulary_file=vocab.nips.txt
    """
    config = load_config(configs, settings, {"source": {"path": source}, "corpus": {"url": corpus}})
    from ..actions.ingest import ingest as ingest_documents
    from ..actions.ingest import open_documents

    with library_warnings():
        documents = open_documents(config, overwrite)
    nbytes = sum(file.size for file in documents.files)
    with open_session(config, as_json, nbytes=nbytes) as session:
        found = ingest_documents(config, documents, session.client, session.display, overwrite)
    show.result(found, as_json, lambda: show.corpus(found))


@click.command()
@click.argument("edges")
@click.argument("graph")
@click.option("--directed", is_flag=True, help="Edges lead from the first node to the second only.")
@click.option("--unweighted", is_flag=True, help="Ignore the weights of the edges.")
@click.option("--header/--no-header", default=None, help="Whether the first line names the columns.  [default: guess]")
@click.option(
    "--columns",
    nargs=2,
    metavar="FROM TO",
    help="Columns that hold the two nodes of an edge.  [default: source and target, or the first two]",
)
@click.option("--weight", default="weight", metavar="COLUMN", help="Column that holds the weights.")
@click.option(
    "--delimiter", metavar="CHARACTER", help="What separates the columns of a text file.  [default: found out]"
)
@click.option("--quote", default='"', metavar="CHARACTER", help="What may be around names in a text file, or none.")
@click.option("--comments", default="#%", metavar="CHARACTERS", help="What begins a comment in a text file, or none.")
@overwrite_option
@json_option
def graph(
    edges: str,
    graph: str,
    directed: bool,
    unweighted: bool,
    header: bool | None,
    columns: tuple[str, str] | None,
    weight: str,
    delimiter: str | None,
    quote: str,
    comments: str,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Turn edges into a graph on disk, for node2vec and fastrp.

    EDGES is a file, a glob pattern or a URL. Each line of a text file holds two nodes and optionally a weight,
    separated by tabs, commas, semicolons or blanks. If the first line names columns source, target and maybe weight,
    others are skipped. Parquet, Arrow, MatrixMarket and sparse matrices (.npz) work too. GRAPH is the folder or URL to
    write to.

    \b
    Examples:
      corpusmill graph edges.tsv graphs/links --directed
      corpusmill config example node2vec > my.yaml
      corpusmill train my.yaml --set corpus.url=graphs/links
    """
    from ....io.errors import DataError
    from ....io.stores.store import Store
    from ...ingest.graph import ingest_graph
    from ..actions.inspect import inspect

    if Store(graph).exists("graph.json") and not overwrite:
        raise DataError(
            f"{graph}: there is a graph here already; choose another folder, or replace it with --overwrite"
        )
    first, second = columns or (None, None)
    # None: weighted if the file has weights.
    weighted = False if unweighted else None
    with library_warnings():
        ingest_graph(
            edges,
            graph,
            directed=directed,
            weighted=weighted,
            header=header,
            source=first,
            target=second,
            weight=weight,
            delimiter=delimiter,
            quote=quote,
            comments="" if comments == "none" else comments,
        )
    facts = inspect(graph)
    show.result(facts, as_json)


@click.command()
@configs_argument
@set_option
@overwrite_option
@json_option
def train(configs: tuple[str, ...], settings: tuple[str, ...], overwrite: bool, as_json: bool) -> None:
    """Train a model on a corpus that is already on disk.

    CONFIG is a YAML file, or a name from `corpusmill config list`. Its corpus.url names the corpus. Unlike `run`, this
    command does not need the source of the corpus. If the run in run.url already has some epochs, training continues
    after the last one.

    \b
    Examples:
      corpusmill train my.yaml
      corpusmill train my.yaml --set model.max_iter=400      train the same model for longer
    """
    config = load_config(configs, settings)
    from ..actions.train import check_training

    with job_metrics(config, config.run.url) as job:
        with library_warnings():
            check_training(config)
        with open_session(config, as_json) as session:
            trained = _train(config, session, job, overwrite)
    show.result(trained, as_json, lambda: show.training(trained))


@click.command()
@click.argument("run_url", metavar="RUN")
@set_option
@json_option
def resume(run_url: str, settings: tuple[str, ...], as_json: bool) -> None:
    """Continue a run from its folder alone.

    RUN is the folder or URL of the run. It stores its configuration, so you need neither the file nor the options that
    it was started with. With these, the same `run` or `train` command continues it, too. Training continues after the
    last complete epoch.

    \b
    Examples:
      corpusmill resume runs/articles
      corpusmill resume runs/articles --set model.max_iter=400
      corpusmill resume runs/articles --set corpus.url=moved/corpus
    """
    from ..actions.train import check_data_exists, check_nothing_is_hidden, stored_config

    config = load_config([stored_config(run_url)], settings, {"run": {"url": run_url}})
    check_nothing_is_hidden(config, run_url)
    check_data_exists(config, run_url)
    with job_metrics(config, config.run.url) as job, open_session(config, as_json) as session:
        trained = _train(config, session, job, overwrite=False)
    show.result(trained, as_json, lambda: show.training(trained))


def _train(config: "Config", session: Session, job: "BatchJob", overwrite: bool) -> "TrainingResult":
    from ..actions.train import train as train_model

    callbacks: list[Callback] = [session.display, job.observe]
    callback = mlflow_of(config)
    if callback is not None:
        callbacks.append(callback)
    return train_model(config, session.client, callbacks, overwrite)
