"""The files of tests that take longest (pytest --durations), in the order in which to start them."""

from pathlib import Path

#: The longest first, but not two together that compile the same kernels: both processes would compile them.
LONGEST = (
    "kernels/cuda/test_on_ptx.py",
    "kernels/lda/test_gibbs.py",
    "io/stores/test_object_store.py",
    "pipeline/engine/cluster/test_open.py",
    "rules/test_examples.py",
    "pipeline/models/nmf/test_estimator.py",
    "pipeline/engine/cluster/test_sweep.py",
    "pipeline/models/test_contract.py",
    "benchmarks/papers/test_registry.py",
    "pipeline/commands/cli/test_doctor.py",
    "kernels/cuda/test_ptx.py",
    "pipeline/engine/cluster/test_slurm.py",
    "pipeline/publishing/retraining/test_interruptions.py",
    "pipeline/models/word2vec/test_estimator.py",
    "pipeline/models/lda/test_gibbs.py",
    "pipeline/models/test_recorded_merging.py",
    "pipeline/ingest/test_ingest_again.py",
    "rules/test_pages_of_clusters.py",
    "pipeline/models/random_indexing/test_estimator.py",
    "pipeline/models/test_own.py",
    "pipeline/commands/cli/test_training.py",
    "pipeline/engine/test_epoch.py",
    "pipeline/models/lda/test_estimator.py",
    "pipeline/models/test_cut.py",
    "pipeline/commands/cli/test_signals.py",
    "pipeline/models/test_metamorphic.py",
    "kernels/word2vec/test_cells.py",
    "pipeline/engine/test_faults.py",
    "pipeline/engine/test_other_machines.py",
    "simulation/test_simulation.py",
    "pipeline/commands/cli/test_paused.py",
    "pipeline/views/test_dashboard.py",
    "pipeline/publishing/test_mlflow.py",
    "pipeline/engine/test_users_clients.py",
    "pipeline/cells/cistopic/test_cistopic.py",
    "test_other_systems.py",
    "pipeline/engine/test_grid_faults.py",
    "pipeline/models/test_scikit_learn.py",
    "pipeline/publishing/retraining/test_retrain.py",
    "pipeline/engine/test_limits.py",
    "kernels/nmf/test_hals.py",
    "pipeline/models/nmf/test_restarts.py",
    "io/readers/test_delimited.py",
)
TESTS = Path(__file__).parents[1]
#: The place of a file in the order, by its path.
RANKS = {TESTS / name: number for number, name in enumerate(LONGEST)}
