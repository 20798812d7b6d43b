"""The subcommands of ``det-compat``, one module each."""
