"""The command line. Data to standard output, talk to standard error."""
