"""Where the credit goes, and whether it deserves it: statistics, tables, figures and token maps of scored rollouts."""
