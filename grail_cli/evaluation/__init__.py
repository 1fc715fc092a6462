"""Suites, sampling, grading, scores and the files of results; import the module that you need."""
