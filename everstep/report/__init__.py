"""One HTML file a run. Figures are made apart from the page that shows them; no I/O here."""
