"""What one worker does in a step: it sweeps chunks, trains cells, merges deltas, and updates blocks of the model."""
