"""Settings of the documentation site: ``make docs`` builds it."""

import os
import shutil
import sys
import tempfile
from importlib.metadata import version as installed_version
from pathlib import Path

FOLDER = Path(__file__).parent
sys.path[:0] = [str(FOLDER / "extensions"), str(FOLDER.parent)]

from benchmarks.papers import catalogue  # noqa: E402
from benchmarks.papers import page as papers  # noqa: E402

project = "corpusmill"
author = "The corpusmill developers"
project_copyright = author
version = release = installed_version("corpusmill")

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "docstrings",
    "pages",
]
exclude_patterns = ["_build", "extensions", "paper"]
templates_path = ["templates"]
# The references in docstrings are a list of papers. Not each is cited by its number.
suppress_warnings = ["ref.footnote"]

# --- Markdown, and the cells that are executed ---

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "cache"
# An error is a warning, which ends the build with an error after all pages were tried.
nb_execution_raise_on_error = False
nb_execution_show_tb = True
nb_execution_timeout = 280
nb_execution_in_temp = True
nb_merge_streams = True
nb_render_markdown_format = "myst"

# Cells run in kernels that inherit this environment: the commands of this installation come first, and IPython reads
# the cell magic "console" from a profile of its own.
profile = Path(tempfile.mkdtemp(prefix="corpusmill-docs-"))
(profile / "profile_default" / "startup").mkdir(parents=True)
shutil.copy(FOLDER / "extensions" / "console.py", profile / "profile_default" / "startup")
# Each kernel would warn that its connection on this machine is not encrypted.
(profile / "profile_default" / "ipython_kernel_config.py").write_text("c.IPKernelApp.log_level = 'ERROR'\n")
os.environ["IPYTHONDIR"] = str(profile)
# A worker that notices late that its cluster was closed would log an error.
os.environ["DASK_LOGGING__DISTRIBUTED"] = "critical"
# MLflow's and BERTopic's progress bars need widgets.
os.environ["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] = "false"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
os.environ["PYTHONWARNINGS"] = "ignore:IProgress not found"
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
os.environ["COLUMNS"] = "100"
# Pages that a cell makes, such as the explorer, are written here and copied into the site.
live = FOLDER / "_build" / "live" / "live"
live.mkdir(parents=True, exist_ok=True)
os.environ["CORPUSMILL_DOCS_LIVE"] = str(live)
papers.write_page(
    live / "papers.html",
    papers.read_results(papers.RECORDS),
    catalogue.FIGURES,
    catalogue.NOT_MEASURED,
    "../explanation/papers.html",
)
os.environ["CORPUSMILL_DOCS"] = str(FOLDER)
os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"

# --- reference of the Python API ---

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "groupwise"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

# --- pages ---

html_theme = "pydata_sphinx_theme"
html_title = "corpusmill"
html_static_path = ["static"]
html_extra_path = ["_build/live"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_sidebars = {"index": [], "quickstart": [], "choosing": [], "benchmarks": [], "faq": []}
html_theme_options = {
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "navbar_align": "left",
    "icon_links": [
        {"name": "Source code", "url": "https://github.com/corpusmill/corpusmill", "icon": "fa-brands fa-github"}
    ],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
