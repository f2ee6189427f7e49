"""The files of tests that take longest (pytest --durations), in the order in which to start them."""

from pathlib import Path

#: The longest first, but not two together that compile the same kernels: both processes would compile them.
LONGEST = (
    "kernels/cuda/test_on_ptx.py",
    "rules/test_examples.py",
    "pipeline/engine/cluster/test_slurm.py",
    "pipeline/engine/cluster/test_sweep.py",
    "kernels/lda/test_gibbs.py",
    "io/stores/test_object_store.py",
    "pipeline/engine/cluster/test_open.py",
    "kernels/cuda/test_ptx.py",
    "pipeline/publishing/retraining/test_interruptions.py",
    "pipeline/models/nmf/test_estimator.py",
    "pipeline/models/test_contract.py",
    "pipeline/models/lda/test_samplers.py",
    "pipeline/commands/cli/test_doctor.py",
    "pipeline/engine/test_users_clients.py",
    "pipeline/engine/test_epoch.py",
    "pipeline/models/random_indexing/test_estimator.py",
    "pipeline/models/lda/test_estimator.py",
    "pipeline/engine/test_grid_faults.py",
    "pipeline/commands/cli/test_paused.py",
    "pipeline/ingest/test_ingest_again.py",
    "rules/test_pages_of_clusters.py",
    "benchmarks/test_scale.py",
    "pipeline/models/word2vec/test_estimator.py",
    "pipeline/engine/test_other_machines.py",
    "pipeline/models/test_metamorphic.py",
    "pipeline/models/nmf/test_restarts.py",
    "io/readers/test_delimited.py",
    "pipeline/models/test_own.py",
    "kernels/word2vec/test_cells.py",
    "test_other_systems.py",
    "pipeline/commands/cli/test_training.py",
    "pipeline/models/test_cut.py",
    "simulation/test_simulation.py",
    "pipeline/engine/test_faults.py",
    "pipeline/commands/cli/test_signals.py",
    "pipeline/engine/test_limits.py",
    "pipeline/cells/cistopic/test_cistopic.py",
    "pipeline/models/test_scikit_learn.py",
)
TESTS = Path(__file__).parents[1]
#: The place of a file in the order, by its path.
RANKS = {TESTS / name: number for number, name in enumerate(LONGEST)}
