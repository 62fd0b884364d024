# SPDX-License-Identifier: MIT
"""Sphinx's settings for the site. scripts/site_build.py lays out the pages and runs Sphinx on them."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

project = "Verbena"
author = "the authors of Verbena"
copyright = "the authors of Verbena, MIT licence"
html_title = "Verbena"
extensions = ["myst_parser", "sphinx_copybutton", "verbena_site"]
myst_heading_anchors = 4
myst_url_schemes = ["http", "https", "mailto", "source"]
highlight_language = "none"
pygments_style = "friendly"
pygments_dark_style = "native"
html_theme = "furo"
html_static_path = [str(pathlib.Path(__file__).resolve().parent / "static")]
html_css_files = ["verbena.css"]
html_favicon = str(pathlib.Path(__file__).resolve().parent / "static/favicon.svg")
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = None
templates_path = []
exclude_patterns = []
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#8a3b12",
        "color-brand-content": "#9a4213",
        "font-stack": "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', 'DejaVu Sans', sans-serif",
        "font-stack--monospace": "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', 'DejaVu Sans Mono', monospace",
    },
    "dark_css_variables": {
        "color-brand-primary": "#f2a073",
        "color-brand-content": "#f2a073",
    },
}
