"""One file a command: options in, one library call, printing out."""
