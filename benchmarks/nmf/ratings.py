"""NMF of planted ratings of which few are known: error of the others, and CPU seconds, against other programs.

python -m benchmarks.nmf.ratings --help

The peers are NMF and SVD of scikit-surprise, if it is installed. Both take stochastic gradient steps over the known
ratings. Each program has the planted number of components, and the strength of its penalty that predicts best.
"""

import os

# One thread each, for BLAS as well. It reads these variables when NumPy is imported.
os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))

import click
import numpy as np
import scipy.sparse
from corpusmill import NMF

from benchmarks.common import JSON, QUICK, print_row, write_json
from benchmarks.nmf.restarts import timed

COMPONENTS = 10
NOISE = 0.3


def planted(n_users, n_items, per_user, seed=0):
    """Return known ratings to train with, as many to test with, and these without noise: users, items, ratings."""
    rng = np.random.default_rng(seed)
    W, H = rng.gamma(0.5, 1, (n_users, COMPONENTS)), rng.gamma(0.5, 1, (n_items, COMPONENTS))
    places = np.unique(rng.integers(0, n_users * n_items, 2 * n_users * per_user))
    rng.shuffle(places)
    users, items = np.divmod(places, n_items)
    truth = np.sum(W[users] * H[items], axis=1)
    ratings = np.maximum(truth + NOISE * rng.standard_normal(len(truth)), 0)
    half = len(places) // 2
    train = (users[:half], items[:half], ratings[:half])
    return train, (users[half:], items[half:], truth[half:])


def rmse(found, test):
    """Return the root mean squared error of predictions of the numbers without noise."""
    return float(np.sqrt(np.mean((found - test[2]) ** 2)))


def own(train, test, shape, alpha):
    """Return the error and the CPU-seconds of corpusmill."""
    users, items, ratings = train
    A = scipy.sparse.csr_matrix((ratings, (users, items)), shape)
    model = NMF(COMPONENTS, missing="unknown", alpha_W=alpha, tol=1e-5)
    H, seconds = timed(lambda: model.fit(A).transform(A))
    return rmse(np.sum(H[test[0]] * model.components_.T[test[1]], axis=1), test), seconds


def zeros(train, test, shape, alpha):
    """Return the same for NMF that takes unknown ratings for zeros."""
    users, items, ratings = train
    A = scipy.sparse.csr_matrix((ratings, (users, items)), shape)
    model = NMF(COMPONENTS, tol=1e-5)
    H, seconds = timed(lambda: model.fit(A).transform(A))
    return rmse(np.sum(H[test[0]] * model.components_.T[test[1]], axis=1), test), seconds


def surprise(name):
    """Return a function that does the same with an algorithm of scikit-surprise."""
    import pandas
    import surprise

    def run(train, test, shape, penalty):
        frame = pandas.DataFrame(dict(zip(("user", "item", "rating"), train, strict=True)))
        reader = surprise.Reader(rating_scale=(0, float(train[2].max())))
        data = surprise.Dataset.load_from_df(frame, reader).build_full_trainset()
        options = {"NMF": {"reg_pu": penalty, "reg_qi": penalty}, "SVD": {"reg_all": penalty}}[name]
        model = getattr(surprise, name)(n_factors=COMPONENTS, n_epochs=100, random_state=0, **options)
        _, seconds = timed(lambda: model.fit(data))
        found = [model.predict(*pair).est for pair in zip(*test[:2], strict=True)]
        return rmse(np.array(found), test), seconds

    return run


@click.command()
@QUICK
@JSON
def main(quick, target):
    """Print a table of errors and CPU-seconds."""
    sizes = (300, 100, 30) if quick else (5_000, 2_000, 60)
    train, test = planted(*sizes)
    print(f"{sizes[0]} users, {sizes[1]} items, {len(train[0])} known ratings with noise {NOISE}")
    mean = float(np.mean(train[2]))
    programs = {"corpusmill": (own, (0, 0.001, 0.01, 0.03)), "unknown as zeros": (zeros, (0,))}
    try:
        programs["surprise NMF"] = (surprise("NMF"), (0.01, 0.06, 0.2))
        programs["surprise SVD"] = (surprise("SVD"), (0.005, 0.02, 0.1))
    except ImportError:
        print("scikit-surprise or pandas is not installed")
    rows = [{"program": "mean", "penalty": 0, "rmse": rmse(mean, test), "seconds": 0.0}]
    for name, (run, penalties) in programs.items():
        run(*planted(100, 50, 10), (100, 50), penalties[0])  # compiles
        tried = [(*run(train, test, sizes[:2], penalty), penalty) for penalty in penalties]
        error, seconds, penalty = min(tried)
        rows.append({"program": name, "penalty": penalty, "rmse": error, "seconds": seconds})
    print_row("program", "penalty", "RMSE", "CPU s", width=18)
    for row in rows:
        print_row(*row.values(), width=18)
    if target:
        write_json(target, rows)


if __name__ == "__main__":
    main()
