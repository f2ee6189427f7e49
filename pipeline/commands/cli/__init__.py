"""The commands as click sees them: arguments, options, help texts, exit codes and signals."""
