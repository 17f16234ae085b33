"""The subcommands of ``berthage`` that search and read plans; only `searching` needs torch."""
