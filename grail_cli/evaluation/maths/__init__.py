"""Answers of school and college mathematics: read from LaTeX or plain text, valued exactly, compared by kind.

notation -> tokens -> reader (a tree) -> values (numbers at fixed probe points) -> compare (verdict and rule). Nothing
here evaluates text as code, and every step is bounded; `judge.py` above decides what to do with what cannot be read.
"""
