"""Read a model that `corpusmill cistopic` wrote as the tables that pycisTopic's CistopicLDAModel takes.

Needs pandas and pyarrow only, and runs in the environment of pycisTopic:

    from cistopic_model import read_model
    cistopic_obj.add_LDA_model(CistopicLDAModel(**read_model("out/tm", 20, "cells.txt", "regions.txt")))
"""

import gzip
import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq


def read_names(path: str) -> list[str]:
    """Return the names in a file with one name per line."""
    content = Path(path).read_bytes()
    if path.endswith(".gz"):
        content = gzip.decompress(content)
    return [line.strip() for line in content.decode().splitlines() if line.strip()]


def read_lists(path: str) -> pd.DataFrame:
    """Return the lists of a Parquet file as the rows of a table."""
    column = pq.read_table(path).column(0).combine_chunks()
    values = column.flatten().to_numpy(zero_copy_only=False)
    return pd.DataFrame(values.reshape(-1, column.type.list_size))


def read_model(prefix: str, n_topics: int, cells: str, regions: str) -> dict[str, pd.DataFrame]:
    """Return the tables of one model. ``cells`` and ``regions`` are the files of names that the command was given."""
    base = f"{prefix}.{n_topics}_topics"
    topics = [f"Topic{number}" for number in range(1, n_topics + 1)]
    parameters = json.loads(Path(f"{base}.parameters.json").read_text())
    stats = json.loads(Path(f"{base}.stats.json").read_text())  # written with --stats
    cell_topic = read_lists(f"{base}.cell_topic_probabilities.parquet").T
    cell_topic.index, cell_topic.columns = pd.Index(topics), pd.Index(read_names(cells))
    counts = read_lists(f"{base}.region_topic_counts.parquet").T
    counts.index, counts.columns = pd.Index(read_names(regions)), pd.Index(topics)
    measures = ["Arun_2010", "Cao_Juan_2009", "Mimno_2011", "loglikelihood"]
    numbers = range(1, n_topics + 1)
    values = [
        "corpusmill",
        n_topics,
        parameters["iterations"],
        parameters["random_seed"],
        parameters["alpha"],
        parameters["alpha_by_topic"],
        parameters["eta"],
        5,
        parameters["time"],
        parameters["time"],
    ]
    names = [
        "package",
        "n_topics",
        "n_iter",
        "random_state",
        "alpha",
        "alpha_by_topic",
        "eta",
        "top_topics_coh",
        "full_time",
        "model_time",
    ]
    return {
        "metrics": pd.DataFrame({name: [stats[name]] for name in measures}, index=["Metric"]),
        "coherence": pd.DataFrame({"Topic": numbers, "Mimno_2011": stats["coherence"]}),
        "marg_topic": pd.DataFrame({"Topic": numbers, "Marg_Topic": stats["marg_topic"]}),
        "topic_ass": pd.DataFrame({"Topic": numbers, "Assignments": stats["assignments"]}),
        "cell_topic": cell_topic,
        "topic_region": counts / counts.sum(axis=0),
        "parameters": pd.DataFrame({"Parameter": values}, index=names),
    }
