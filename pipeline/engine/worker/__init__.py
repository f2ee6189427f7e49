"""The work of one worker in a step: its tasks, what they read and write, and what it keeps for other workers."""
