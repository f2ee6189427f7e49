"""The plan of a worker's memory, and the peak that was measured, for all models.

python -m benchmarks.scale.memory_plan --help

The words are random, and every word of the vocabulary occurs. A peak that is close to the plan is a plan that wastes
little; one above it is a fault.
"""

import tempfile

import click
from corpusmill import LDA, NMF, RandomIndexing, Word2Vec, open_cluster
from corpusmill.pipeline.engine.events import RunFinished, RunStarted
from dask.utils import format_bytes

from benchmarks.common import JSON, QUICK, print_row, write_json
from benchmarks.scale.large_model import write_random_corpus

COLUMNS = ("model", "V", "threads", "limit", "blocks", "planned", "peak", "peak/plan")


def models(scale):
    """Return the models by name. ``scale`` divides their sizes."""
    return {
        "lda": LDA(2000 // scale, max_iter=2, learn_priors="none", device="cpu"),
        "lda-warp": LDA(2000 // scale, max_iter=2, sampler="warp", learn_priors="none", device="cpu"),
        "nmf": NMF(200 // scale, max_iter=1, device="cpu"),
        "nmf-nndsvd": NMF(200 // scale, max_iter=1, init="nndsvda", device="cpu"),
        "nmf-restarts": NMF(100 // scale, max_iter=1, restarts=3, device="cpu"),
        "nmf-kl": NMF(200 // scale, max_iter=1, solver="mu", beta_loss="kullback-leibler", device="cpu"),
        "word2vec": Word2Vec(300 // scale, min_count=1, epochs=1, device="cpu"),
        "random-indexing": RandomIndexing(2048 // scale, device="cpu"),
    }


@click.command(help=__doc__.split("\n")[0])
@click.option("--words", multiple=True, type=int, default=[30_000, 739_488], show_default=True, help="Vocabulary.")
@click.option("--tokens", default=20_000_000, show_default=True)
@click.option("--threads", multiple=True, type=int, default=[1, 2], show_default=True)
@click.option("--limit", default="1700MiB", show_default=True, help="Memory limit of the worker.")
@click.option("--only", multiple=True, help="Names of models; by default all.")
@JSON
@QUICK
def main(words, tokens, threads, limit, only, target, quick):
    """Train each model in a worker, and print its plan beside its peak."""
    scale = 1
    if quick:
        words, tokens, threads, limit, scale = [30_000], 300_000, [1], "1GiB", 20
    rows = []
    print_row(*COLUMNS, width=16)
    for n_words in words:
        with tempfile.TemporaryDirectory() as place:
            corpus = write_random_corpus(f"{place}/corpus", n_words, max(tokens, n_words))
            for n_threads in threads:
                for name, model in models(scale).items():
                    if not only or name in only:
                        found = measure(model, corpus, n_threads, limit)
                        rows.append({"model": name, "V": n_words, "threads": n_threads} | found)
                        print_row(*shown(rows[-1]), width=16)
    if target is not None:
        write_json(target, rows)


def measure(model, corpus, n_threads, limit):
    """Train in a new worker; return its limit, and blocks, plan and peak of its memory."""
    found = {}

    def note(event):
        if isinstance(event, RunStarted):
            found.update({"limit": event.plan["limit"], "blocks": event.plan["blocks"]})
        elif isinstance(event, RunFinished):
            found.update({name: event.metrics[f"memory_{name}"] for name in ("planned", "peak")})

    options = {"n_workers": 1, "threads_per_worker": n_threads, "memory_limit": limit, "dashboard_address": ":0"}
    with open_cluster("local", **options) as client:
        model.fit(corpus, client=client, callbacks=[note], evaluate_every=0, dashboard=False)
    return found


def shown(row):
    """Return the cells of a row."""
    sizes = [format_bytes(int(row[name])) for name in ("limit", "planned", "peak")]
    share = f"{row['peak'] / row['planned']:.0%}"
    return row["model"], row["V"], row["threads"], sizes[0], row["blocks"], sizes[1], sizes[2], share


if __name__ == "__main__":
    main()
