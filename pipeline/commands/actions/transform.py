"""Apply a trained model: the weights of each document, as Parquet files or in an AnnData file."""

from typing import TYPE_CHECKING

from ....io.stores.corpus import Corpus
from ...cells.anndata import annotate_file
from ...models.base.topics import TopicModel
from ...models.registry import load_model
from ..results import Facts

if TYPE_CHECKING:
    from distributed import Client


def transform_into(
    model_url: str,
    data: str,
    into: str,
    layer: str | None = None,
    key: str | None = None,
    replace: bool = False,
    client: "Client | None" = None,
) -> Facts:
    """Store weights of cells and genes in an AnnData file; ``data`` is that file, another one, or a corpus."""
    model = load_model(model_url)
    keys = annotate_file(into, model, data, layer, key, client=client, replace=replace)
    return {"into": into, "obsm": keys.obsm, "varm": keys.varm, "uns": f"corpusmill/{keys.uns}"}


def transform(
    model_url: str,
    corpus_url: str,
    out: str,
    part: str,
    top: int | None = None,
    replace: bool = False,
    client: "Client | None" = None,
) -> Facts:
    """Write the weights of each document of a corpus as Parquet files below ``out``, one file per chunk."""
    model = load_model(model_url)
    corpus = Corpus(corpus_url, part)
    counts = model.transform_to(corpus, out, top=top, client=client, replace=replace)
    columns = ["document", *(["topics"] if top else []), "weights", *corpus.kept_columns]
    facts: Facts = {"out": out, "files": len(corpus.chunks), "columns": columns, **counts}
    if isinstance(model, TopicModel) and model.topic_names_:
        facts["topic_names"] = dict(model.topic_names_)
    return facts
