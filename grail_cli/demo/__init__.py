"""The whole loop on the tiny model in one call: two methods trained, graded, tabled, drawn."""
