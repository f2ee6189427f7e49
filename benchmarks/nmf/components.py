"""The number of components that the left-out entries of planted counts choose.

python -m benchmarks.nmf.components --help
"""

import click
import numpy as np
import scipy.sparse
from corpusmill import NMF

from benchmarks.common import JSON, QUICK, print_row, write_json


def planted(seed, n_rows, n_columns):
    """Return a number of components from 3 to 9, and counts (D, V) drawn from that many components."""
    rng = np.random.default_rng(seed)
    K = int(rng.integers(3, 10))
    shares = rng.dirichlet(np.full(K, 0.3), n_rows)
    topics = rng.dirichlet(np.full(n_columns, 0.1), K)
    return K, rng.poisson(rng.integers(50, 400, (n_rows, 1)) * (shares @ topics)).astype(np.float32)


@click.command()
@QUICK
@JSON
def main(quick, target):
    """Print the planted and the chosen number of ten data sets, and the error of each number."""
    tried = [2, 3, 4] if quick else [*range(2, 14)]
    rows = []
    print_row("planted", "chosen", *(f"K={K}" for K in tried), width=8)
    for seed in range(2 if quick else 10):
        K, A = planted(seed, *((60, 40) if quick else (400, 200)))
        model = NMF(tried[0], restart_components=tried, validation_fraction=0.1, random_state=seed)
        errors = model.fit(scipy.sparse.csr_matrix(A)).validation_errors_
        rows.append({"planted": K, "chosen": min(errors, key=errors.get), "errors": errors})
        print_row(str(K), str(rows[-1]["chosen"]), *errors.values(), width=8)
    print(f"{sum(row['planted'] == row['chosen'] for row in rows)} of {len(rows)} are found")
    if target:
        write_json(target, rows)


if __name__ == "__main__":
    main()
