"""The command line. Needs the ``[cli]`` extra: click and rich."""
