"""Tables and documents from one description each: on the screen, as Markdown, CSV, LaTeX and HTML."""
