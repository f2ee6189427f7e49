"""Models in repositories of the Hugging Face Hub: the model's files, and a card."""

import tempfile
from typing import TYPE_CHECKING

from ....io.extras import needing
from ...models.registry import load_model
from .card import write_card

if TYPE_CHECKING:
    from ...models.base.estimator import Estimator


def push_to_hub(
    model: "Estimator | str",
    repo_id: str,
    license: str,  # noqa: A002 (the Hub's name)
    corpus: str | None = None,
    private: bool = False,
    token: str | None = None,
) -> str:
    """Write a model and its card to a repository of the Hugging Face Hub, in one commit. Needs the extra ``hub``.

    Parameters
    ----------
    model : estimator or str
        A trained model, or the folder or URL of one.
    repo_id : str
        The repository, such as "me/topics", which is made if it is missing. Its earlier files are replaced.
    license : str
        The licence of the model as the Hub names it, such as "cc-by-4.0". That of the data may limit your choice.
    corpus : str, optional
        The folder or URL of the corpus, if it was moved after the training. Its sizes and its digest are in the card.
    private : bool, default=False
        Whether a new repository is private.
    token : str, optional
        A token of the Hub. By default, the one of ``hf auth login`` or of the variable HF_TOKEN.

    Returns
    -------
    str
        The address of the commit.

    Raises
    ------
    ImportError
        If the extra is missing.

    Notes
    -----
    The card names the path of the corpus, the scores, the parameters and the words of the topics. The model has its
    whole vocabulary, so check that no word of it is private.

    Examples
    --------
    >>> from corpusmill import LDA, push_to_hub
    >>> documents = ["sea boat storm", "boat sea sailor", "oven bread cake", "bread flour oven"]
    >>> lda = LDA(n_components=2, max_iter=20).fit(documents)
    >>> push_to_hub(lda, "me/ships-and-bread", "cc0-1.0")  # doctest: +SKIP
    """
    with needing("huggingface_hub", "corpusmill[hub]", "push_to_hub"):
        from huggingface_hub import HfApi
    hub = HfApi(token=token)
    if isinstance(model, str):
        model = load_model(model)
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        write_card(folder, folder, corpus, license, repo_id)
        hub.create_repo(repo_id, private=private, exist_ok=True)
        # Names of arrays differ from one save to the next.
        commit = hub.upload_folder(
            repo_id=repo_id, folder_path=folder, delete_patterns="*", commit_message="Model of corpusmill"
        )
    return str(commit.commit_url)


def from_pretrained(repo_id: str, revision: str | None = None, token: str | None = None) -> "Estimator":
    """Read a model from a repository of the Hugging Face Hub, through the Hub's cache. Needs the extra ``hub``.

    Parameters
    ----------
    repo_id : str
        The repository, such as "me/topics".
    revision : str, optional
        A branch, tag or commit. A commit gives the same model for ever.
    token : str, optional
        A token of the Hub, for private repositories.

    Returns
    -------
    estimator
        A trained model of the kind that was written.

    Raises
    ------
    DataError
        If the repository has no model of corpusmill.
    ImportError
        If the extra is missing.

    Examples
    --------
    >>> from corpusmill import from_pretrained
    >>> lda = from_pretrained("me/ships-and-bread", revision="main")  # doctest: +SKIP
    """
    with needing("huggingface_hub", "corpusmill[hub]", "from_pretrained"):
        from huggingface_hub import snapshot_download
    return load_model(snapshot_download(repo_id, revision=revision, token=token))
