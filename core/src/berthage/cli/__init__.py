"""The command line. Needs the ``[cli]`` extra: ``pip install 'berthage[cli]'``."""
