"""The command line of author coreference."""
