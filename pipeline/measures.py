"""Scores of models on held-out documents."""

#: The name of each score in the metrics: 1 if a larger value is better, -1 if a smaller one is.
HELD_OUT_MEASURES = {
    "held_out_log_likelihood": 1,
    "held_out_loss": -1,
    "held_out_relative_error": -1,
    "held_out_divergence": -1,
}
