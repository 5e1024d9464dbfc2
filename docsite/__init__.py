"""The documentation site: the pages of docs/reference, written from the code at each build."""
