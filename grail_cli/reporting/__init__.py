"""Results folders in, tables out: a workbook, text and an html page, with intervals and paired tests."""
