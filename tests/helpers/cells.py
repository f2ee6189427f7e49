"""Files of single-cell programs for tests, written with h5py as their formats say."""

import gzip

import numpy as np
import scipy.sparse

#: Counts of 7 cells and 5 genes. Cell 2 and gene 3 are empty.
COUNTS = np.array(
    [
        [2, 0, 1, 0, 0],
        [0, 1, 0, 0, 4],
        [0, 0, 0, 0, 0],
        [1, 1, 1, 0, 1],
        [0, 3, 0, 0, 0],
        [5, 0, 0, 0, 2],
        [0, 0, 7, 0, 1],
    ]
)
CELLS = [f"cell{row}" for row in range(7)]
GENES = [f"gene{column}" for column in range(5)]


def write_h5ad(path, matrix=None, layers=None, cells=CELLS, genes=GENES, raw=None):
    """Write an AnnData file with h5py and return its path as a string."""
    import h5py

    with h5py.File(path, "w") as file:
        encode(file, "anndata", "0.1.0")
        write_matrix(file, "X", scipy.sparse.csr_matrix(COUNTS, dtype=np.float32) if matrix is None else matrix)
        write_table(file, "obs", cells)
        write_table(file, "var", genes)
        for name in ("layers", "obsm", "varm", "uns"):
            encode(file.create_group(name), "dict", "0.1.0")
        for name, layer in (layers or {}).items():
            write_matrix(file["layers"], name, layer)
        if raw is not None:
            encode(file.create_group("raw"), "raw", "0.1.0")
            write_matrix(file["raw"], "X", raw)
            write_table(file["raw"], "var", [f"raw{column}" for column in range(raw.shape[1])])
    return str(path)


def encode(element, kind, version):
    """Set the attributes that every element of an AnnData file has."""
    element.attrs["encoding-type"] = kind
    element.attrs["encoding-version"] = version


def write_matrix(group, name, matrix):
    """Write a dense or sparse matrix as an element of an AnnData file."""
    if not scipy.sparse.issparse(matrix):
        group[name] = matrix
        encode(group[name], "array", "0.2.0")
        return
    element = group.create_group(name)
    encode(element, f"{matrix.format}_matrix", "0.1.0")
    element.attrs["shape"] = matrix.shape
    for part in ("data", "indices", "indptr"):
        element[part] = getattr(matrix, part)


def write_table(group, name, index):
    """Write a data frame without columns."""
    table = group.create_group(name)
    encode(table, "dataframe", "0.2.0")
    table.attrs["_index"] = "_index"
    table.attrs["column-order"] = np.array([], "S1")
    table["_index"] = np.array(index, object)
    encode(table["_index"], "string-array", "0.2.0")


def write_tenx(path, version=3):
    """Write a feature-barcode matrix of 10x Genomics in HDF5; genes 3 and 4 are of type Peaks. Return the path."""
    import h5py

    matrix = scipy.sparse.csr_matrix(COUNTS)
    with h5py.File(path, "w") as file:
        group = file.create_group("matrix" if version == 3 else "GRCh38")
        for part in ("data", "indices", "indptr"):
            group[part] = getattr(matrix, part)
        group["shape"] = matrix.shape[::-1]
        group["barcodes"] = np.array(CELLS, "S")
        names = np.array(["alpha", "beta", "alpha", "gamma", "delta"], "S")
        if version == 2:
            group["genes"] = np.array(GENES, "S")
            group["gene_names"] = names
            return str(path)
        features = group.create_group("features")
        features["id"] = np.array(GENES, "S")
        features["name"] = names
        features["feature_type"] = np.array(["Gene Expression"] * 3 + ["Peaks"] * 2, "S")
    return str(path)


def write_market(path, matrix, order="column", field="integer"):
    """Write a MatrixMarket file whose entries ascend by "row" or by "column", and return the path as a string."""
    entries = scipy.sparse.coo_matrix(matrix)
    keys = (entries.row, entries.col) if order == "column" else (entries.col, entries.row)
    places = np.lexsort(keys)
    lines = [f"%%MatrixMarket matrix coordinate {field} general", f"{matrix.shape[0]} {matrix.shape[1]} {entries.nnz}"]
    for place in places:
        value = "" if field == "pattern" else f" {entries.data[place]}"
        lines.append(f"{entries.row[place] + 1} {entries.col[place] + 1}{value}")
    text = "\n".join(lines) + "\n"
    if str(path).endswith(".gz"):
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return str(path)


def write_tenx_folder(folder, version=3):
    """Write a folder of 10x Genomics and return its path as a string."""
    folder.mkdir()
    if version == 2:
        write_market(folder / "matrix.mtx", COUNTS.T)
        (folder / "barcodes.tsv").write_text("\n".join(CELLS))
        (folder / "genes.tsv").write_text("\n".join(f"{gene}\t{gene.upper()}" for gene in GENES))
        return str(folder)
    write_market(folder / "matrix.mtx.gz", COUNTS.T)
    rows = [f"{gene}\t{gene.upper()}\t{'Peaks' if gene > 'gene2' else 'Gene Expression'}" for gene in GENES]
    (folder / "barcodes.tsv.gz").write_bytes(gzip.compress("\n".join(CELLS).encode()))
    (folder / "features.tsv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    return str(folder)


def write_names(path, names):
    """Write one name per line and return the path as a string."""
    path.write_text("".join(f"{name}\n" for name in names))
    return str(path)


def counts_of(keys, documents, names):
    """Return the counts of documents given as lists of words: (documents, names)."""
    column = {name: position for position, name in enumerate(names)}
    counts = np.zeros((len(keys), len(names)), np.int64)
    for row, document in enumerate(documents):
        for word in document:
            counts[row, column[word]] += 1
    return counts
