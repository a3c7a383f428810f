"""Tables and documents, each from one description: on the screen, as Markdown, CSV, LaTeX and HTML."""
