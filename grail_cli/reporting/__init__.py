"""Results folders in, tables out: xlsx, csv, markdown, LaTeX and one html page, with intervals and paired differences."""
