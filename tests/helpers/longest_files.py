"""The files of tests that take longest (pytest --durations), in the order in which to start them."""

from pathlib import Path

#: The longest first, but not two together that compile the same kernels: both processes would compile them.
LONGEST = (
    "rules/test_examples.py",
    "kernels/cuda/test_on_ptx.py",
    "pipeline/models/lda/test_samplers.py",
    "kernels/cuda/test_ptx.py",
    "pipeline/models/lda/test_estimator.py",
    "pipeline/models/nmf/test_estimator.py",
    "pipeline/models/word2vec/test_estimator.py",
    "pipeline/models/test_contract.py",
    "pipeline/cells/cnmf/test_peer.py",
    "pipeline/engine/test_epoch.py",
    "rules/test_pages_of_clusters.py",
    "pipeline/engine/cluster/test_sweep.py",
    "pipeline/ingest/test_ingest_again.py",
    "pipeline/publishing/retraining/test_interruptions.py",
    "pipeline/models/random_indexing/test_estimator.py",
    "pipeline/commands/cli/test_doctor.py",
    "pipeline/models/test_compilation.py",
    "pipeline/commands/cli/test_paused.py",
    "pipeline/cells/cistopic/test_cistopic.py",
    "pipeline/engine/test_grid_faults.py",
    "pipeline/commands/cli/test_signals.py",
    "pipeline/engine/cluster/test_open.py",
    "pipeline/commands/cli/test_retrain.py",
    "pipeline/models/nmf/test_restarts.py",
)
TESTS = Path(__file__).parents[1]
#: The place of a file in the order, by its path.
RANKS = {TESTS / name: number for number, name in enumerate(LONGEST)}
